"""EmptySectorUpdate's shapes and constraint systems against the reference, at nine sizes."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import pytest
import torch

from r1cs_digest import digest, run_digests
from torchzk.backends import Backend
from torchzk.circuits.block_cache import cached_block
from torchzk.circuits.sectors import SECTOR_SHAPES, SectorShape, TreeShape
from torchzk.circuits.update import N_INPUTS, public_inputs, update_r1cs
from torchzk.circuits.update_shapes import UpdateShape, shape_of_sector, update_shape
from torchzk.errors import ConfigError
from torchzk.groth16.density import expected_lengths
from torchzk.groth16.keys import QueryLengths
from torchzk.groth16.setup import make_verifying_key
from torchzk.groth16.toxic_waste import DEV
from torchzk.groth16.vk_file import load_vk
from torchzk.timeline import Timeline

SIZES = [size for size in SECTOR_SHAPES if size != 1 << 30]
# of one partition, and of two
QUICK = [2 << 10, 16 << 10]


@lru_cache(maxsize=1)
def _all_facts(golden: Path) -> dict[int, dict[str, Any]]:
    rows = json.loads((golden / "update_r1cs.json").read_text())
    return {row["sector_size"]: row for row in rows}


def _check(sector_size: int, golden: Path) -> None:
    facts = _all_facts(golden)[sector_size]
    r1cs = update_r1cs(update_shape(sector_size))
    assert r1cs.n_inputs == N_INPUTS == facts["num_inputs"]
    assert r1cs.n_aux == facts["num_aux"]
    assert r1cs.n_constraints == facts["num_constraints"]
    assert r1cs.n_rows == facts["num_constraints_with_input_rows"]
    assert r1cs.nnz == tuple(facts["nnz"][m] for m in "abc")
    got = digest(r1cs)
    assert got.synthesised == facts["r1cs_sha256"]
    assert got.with_input_rows == facts["r1cs_with_input_rows_sha256"]


@pytest.mark.parametrize("sector_size", QUICK)
def test_counts_and_digest(sector_size: int, golden: Path) -> None:
    _check(sector_size, golden)


@pytest.mark.full("hashes up to 30 GB a circuit")
@pytest.mark.parametrize("sector_size", [size for size in SIZES if size not in QUICK])
def test_counts_and_digest_of_the_larger(sector_size: int, golden: Path) -> None:
    _check(sector_size, golden)


def test_digests_of_runs(golden: Path) -> None:
    facts = _all_facts(golden)[2048]
    runs = run_digests(update_r1cs(update_shape(2048)), facts["chunk_constraints"])
    for expected in facts["chunk_sha256_first16"]:
        assert next(runs)[:32] == expected


def test_both_blocks_come_from_the_cache(tmp_path: Path) -> None:
    recall = partial(cached_block, tmp_path)
    shape = UpdateShape(SectorShape(1 << 10, "1KiB", TreeShape(1, 4, 0)), 2, 3, 2, (1, 2), 1)
    first = update_r1cs(shape, recall)
    files = {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    assert len(files) == 2
    # which h is selected does not matter
    again = update_r1cs(replace(shape, h=2), recall)
    assert {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()} == files
    assert digest(again) == digest(first) == digest(update_r1cs(shape))


@pytest.mark.parametrize(
    ("name", "nodes", "tree", "n_constraints"),
    [("1KiB", 32, TreeShape(1, 4, 0), 1_248_389), ("8KiB", 256, TreeShape(2, 4, 0), 2_620_359)],
)
def test_counts_of_the_reference_tests(
    name: str, nodes: int, tree: TreeShape, n_constraints: int
) -> None:
    r1cs = update_r1cs(shape_of_sector(SectorShape(32 * nodes, name, tree)))
    assert r1cs.n_constraints == n_constraints


@pytest.mark.parametrize(
    ("sector_size", "h", "l", "a", "b"),
    [
        (2 << 10, 2_097_151, 1_703_569, 1_697_194, 444_404),
        (32 << 30, 134_217_727, 80_978_488, 80_743_586, 20_983_608),
    ],
)
def test_query_lengths(sector_size: int, h: int, l: int, a: int, b: int) -> None:  # noqa: E741
    lengths = expected_lengths(update_r1cs(update_shape(sector_size)))
    assert lengths == QueryLengths(h=h, l=l, a=a, b_g1=b, b_g2=b)


@pytest.mark.full("ten seconds")
def test_verifying_key(golden: Path, backend: Backend, device: torch.device) -> None:
    r1cs = update_r1cs(update_shape(2048))
    expected = load_vk(golden / "groth16" / "update_2048.vk")
    assert make_verifying_key(backend, r1cs, DEV, device, Timeline()) == expected


def test_shape_of_a_32_gib_sector() -> None:
    shape = update_shape(32 << 30)
    assert (shape.challenge_bits, shape.challenges_per_digest, shape.n_digests) == (26, 9, 10)
    assert (shape.partition_bits, shape.apex_bits, shape.tree_d_levels) == (4, 7, 19)
    assert (shape.h, shape.h_select) == (10, 8)
    assert public_inputs(shape, 3, 5, 6, 7) == [3 + 128, 5, 6, 7]


def test_h_selects_a_bit() -> None:
    selected = [replace(update_shape(8 << 20), h=h).h_select for h in range(7, 13)]
    assert selected == [1, 2, 4, 8, 16, 32]
    # of equal ones the first
    assert update_shape(2048).h_select == 1


@pytest.mark.parametrize(
    ("sector_size", "message"),
    [
        (1 << 30, r"no update circuit of 1073741824 byte sectors; there are 2048 \(2KiB\)"),
        (2049, "no update circuit of 2049 byte sectors"),
    ],
)
def test_what_is_not_specified_is_refused(sector_size: int, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        update_shape(sector_size)
