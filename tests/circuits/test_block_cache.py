"""Blocks on disk: the same block comes back, or a damaged file does not."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from r1cs_digest import digest
from torchzk.circuits.block_cache import block_path, cached_block, load_block, save_block
from torchzk.circuits.gadgets import num, poseidon
from torchzk.circuits.porep import porep_r1cs
from torchzk.circuits.porep_shapes import porep_shape
from torchzk.circuits.post import post_r1cs
from torchzk.circuits.post_shapes import post_shape
from torchzk.circuits.recorder import ConstraintSystem
from torchzk.errors import CacheError
from torchzk.groth16.r1cs import Block, R1cs


def _record() -> Block:
    cs = ConstraintSystem()
    inputs = cs.alloc_many(2)
    num.to_bits(cs, inputs[0])
    num.inputize(cs, poseidon.merkle(cs, inputs))
    return cs.block()


def _refuse() -> Block:
    raise AssertionError("recorded although it is there")


def _same(a: Block, b: Block) -> bool:
    empty = ConstraintSystem().block()
    pairs = [
        (getattr(m, name), getattr(n, name))
        for m, n in zip(a.matrices, b.matrices, strict=True)
        for name in ("starts", "cols", "coefficients")
    ]
    return digest(R1cs(empty, a, 2)) == digest(R1cs(empty, b, 2)) and all(
        x.dtype == y.dtype and np.array_equal(x, y) for x, y in pairs
    )


def test_a_block_is_recorded_once(tmp_path: Path) -> None:
    folder = tmp_path / "made" / "here"
    first = cached_block(folder, "a circuit", _record)
    again = cached_block(folder, "a circuit", _refuse)
    assert _same(first, again)
    # mapped, and nobody writes to it by mistake
    assert not again.a.cols.flags.writeable
    assert block_path(folder, "a circuit") != block_path(folder, "another circuit")
    with pytest.raises(AssertionError, match="recorded although"):
        cached_block(folder, "another circuit", _refuse)


def _damaged(raw: bytes) -> list[bytes]:
    """One bit in the magic, the length, the digest, the header and each of nine arrays; more."""
    places = [0, 8, 20, 50, *range(len(raw) - 3, 2000, -len(raw) // 40)]
    flipped = [raw[:i] + bytes([raw[i] ^ 4]) + raw[i + 1 :] for i in places]
    return [*flipped, b"", raw[:20], raw[: len(raw) // 2], raw[:-1], raw + b"\0"]


def test_a_damaged_file_is_refused_and_replaced(tmp_path: Path) -> None:
    block = cached_block(tmp_path, "a circuit", _record)
    path = block_path(tmp_path, "a circuit")
    raw = path.read_bytes()
    for bad in _damaged(raw):
        path.write_bytes(bad)
        with pytest.raises(CacheError, match="block"):
            load_block(path)
        said: list[str] = []
        assert _same(cached_block(tmp_path, "a circuit", lambda: block, said.append), block)
        assert len(said) == 1
        assert said[0].endswith("it is made again")
        assert path.read_bytes() == raw
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


def test_sizes_that_do_not_fit_together_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.block"
    block = _record()
    save_block(path, replace(block, n_constraints=block.n_constraints + 1))
    with pytest.raises(CacheError, match="matrix a of this block has other sizes"):
        load_block(path)
    short = replace(block.c, coefficients=block.c.coefficients[:-1])
    save_block(path, replace(block, c=short))
    with pytest.raises(CacheError, match="matrix c of this block has other sizes"):
        load_block(path)


def test_circuits_take_their_block_from_the_cache(tmp_path: Path) -> None:
    shape = post_shape("winning", 2048)
    expected = digest(post_r1cs(shape))
    for _ in range(2):
        assert digest(post_r1cs(shape, partial(cached_block, tmp_path))) == expected
    assert len(list(tmp_path.iterdir())) == 1
    # one block does for all circuits that differ in how often it occurs
    post_r1cs(replace(shape, n_slots=3), partial(cached_block, tmp_path))
    assert len(list(tmp_path.iterdir())) == 1
    post_r1cs(post_shape("winning", 4096), partial(cached_block, tmp_path))
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.full("half a minute and 2 GB")
def test_a_large_block_is_mapped(tmp_path: Path) -> None:
    shape = porep_shape(32 << 30)
    first = porep_r1cs(shape, partial(cached_block, tmp_path))
    again = porep_r1cs(shape, partial(cached_block, tmp_path))
    assert all(
        np.array_equal(getattr(a, name), getattr(b, name))
        for a, b in zip(first.block.matrices, again.block.matrices, strict=True)
        for name in ("starts", "cols", "coefficients")
    )
    assert again.block.table == first.block.table
