"""Nodes of TreeD and the wires of their hashes, against the plain gadgets."""

from __future__ import annotations

import random
from hashlib import sha256

import pytest
import torch

from plain_r1cs import alone
from r1cs_digest import digest
from sha256_wires import hash_numbers_wires
from torchzk.backends import Backend
from torchzk.circuits.gadgets import pair_wires
from torchzk.circuits.gadgets.data_tree import hash_pairs, path_pairs, tree_pairs
from torchzk.circuits.gadgets.insertion import select_wires
from torchzk.circuits.gadgets.pair_wires import hash_pair, n_pair_wires, write_pair_wires
from torchzk.circuits.gadgets.sha256 import hash_numbers
from torchzk.circuits.recorder import ConstraintSystem
from torchzk.ops.layout import pack_mont, unpack_mont
from torchzk.params.fields import FR


def _draw(n: int, seed: int) -> list[int]:
    draw = random.Random(seed)
    return [0, FR.modulus - 1, *(draw.randrange(FR.modulus) for _ in range(n))][:n]


def _parent(left: int, right: int) -> int:
    raw = sha256(left.to_bytes(32, "little") + right.to_bytes(32, "little")).digest()
    return int.from_bytes(raw, "little") % 2**254


def _tree(leaves: list[int]) -> list[list[int]]:
    rows = [leaves]
    while len(rows[-1]) > 1:
        pairs = zip(rows[-1][::2], rows[-1][1::2], strict=True)
        rows.append([_parent(*pair) for pair in pairs])
    return rows


def test_hash_of_pairs(backend: Backend, device: torch.device) -> None:
    nodes = _draw(10, 1)
    pairs = pack_mont(nodes, FR, device).view(8, 2, 5)
    expected = [_parent(a, b) for a, b in zip(nodes[:5], nodes[5:], strict=True)]
    assert unpack_mont(hash_pairs(backend, pairs), FR) == expected


@pytest.mark.parametrize("n_leaves", [1, 2, 8])
def test_tree(n_leaves: int, backend: Backend, device: torch.device) -> None:
    rows = _tree(_draw(n_leaves, 2))
    pairs, root = tree_pairs(backend, pack_mont(rows[0], FR, device))
    assert unpack_mont(root, FR) == rows[-1]
    children = [node for row in rows[:-1] for node in row]
    assert unpack_mont(pairs.transpose(1, 2).flatten(1), FR) == children


@pytest.mark.parametrize("levels", [0, 1, 3])
def test_paths(levels: int, backend: Backend, device: torch.device) -> None:
    rows = _tree(_draw(8, 3))
    numbers = [0, 5, 6]
    siblings = [rows[level][(i >> level) ^ 1] for i in numbers for level in range(levels)]
    bits = [[bool(i >> level & 1) for i in numbers] for level in range(levels)]
    pairs = path_pairs(
        backend,
        pack_mont([rows[0][i] for i in numbers], FR, device),
        torch.tensor(bits, device=device).view(levels, 3),
        pack_mont(siblings, FR, device).view(8, 3, levels),
    )
    expected = [
        rows[level][(i >> level) & ~1 | side]
        for side in range(2)
        for level in range(levels)
        for i in numbers
    ]
    assert unpack_mont(pairs.flatten(1), FR) == expected


@pytest.mark.parametrize(("batch", "most"), [((3,), 2048), ((3, 2), 2048), ((5, 2), 4), ((3,), 1)])
def test_pair_wires_are_those_of_the_gadget(
    batch: tuple[int, ...],
    most: int,
    backend: Backend,
    device: torch.device,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("_PAIRS_ON_CPU", "_PAIRS_ON_GPU"):
        monkeypatch.setattr(pair_wires, name, most)
    n = 2 * torch.Size(batch).numel()
    pairs = pack_mont(_draw(n, 4), FR, device).view(8, 2, *batch)
    expected = hash_numbers_wires(backend, pairs)
    # into every other place of something longer
    room = torch.zeros(8, *batch, 2, n_pair_wires(), dtype=torch.int32, device=device)
    write_pair_wires(backend, pairs, room[..., 1, :])
    assert torch.equal(room[..., 1, :].movedim(-1, 1), expected)
    assert not room[..., 0, :].any()


def test_hash_pair_is_the_gadget() -> None:
    spliced, plain = ConstraintSystem(), ConstraintSystem()
    out = hash_pair(spliced, spliced.alloc_many(2)[::-1])
    assert out == hash_numbers(plain, plain.alloc_many(2)[::-1])
    assert digest(alone(spliced)) == digest(alone(plain))
    assert n_pair_wires() == plain.n_aux - 2


def test_select_follows_its_constraints(device: torch.device) -> None:
    values = _draw(8, 5)
    numbers = list(range(8))
    bits = torch.tensor([[bool(i >> k & 1) for i in numbers] for k in range(3)], device=device)
    wires = select_wires(pack_mont(values, FR, device), bits)
    assert wires.shape == (8, 7, 8)
    assert unpack_mont(wires[:, -1], FR) == values
    # the highest bit first: of number 5 = 101b, the upper half, its lower half, the odd one
    assert unpack_mont(wires[:, :, 5], FR) == [*values[4:], *values[4:6], values[5]]
