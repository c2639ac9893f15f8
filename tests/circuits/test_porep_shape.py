"""PoRep's constraint systems against the reference, at every size."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

from r1cs_digest import digest, run_digests
from torchzk.circuits.porep import n_public_inputs, porep_r1cs, prologue
from torchzk.circuits.porep_shapes import porep_shape
from torchzk.circuits.porep_wires import challenge_wires
from torchzk.circuits.sectors import SECTOR_SHAPES
from torchzk.groth16.r1cs import R1cs

LARGE = pytest.mark.full("a minute and 5 GB a circuit")
OTHER = pytest.mark.full("5 s a circuit")
SIZES = [
    2 << 10,
    *(pytest.param(size, marks=OTHER) for size in SECTOR_SHAPES if 2 << 10 < size < 32 << 30),
    pytest.param(32 << 30, marks=LARGE),
    pytest.param(64 << 30, marks=LARGE),
]


@lru_cache(maxsize=1)
def _all_facts(golden: Path) -> dict[int, dict[str, Any]]:
    rows = json.loads((golden / "porep_r1cs.json").read_text())
    return {row["sector_size"]: row for row in rows}


@lru_cache(maxsize=1)
def _r1cs(sector_size: int) -> R1cs:
    return porep_r1cs(porep_shape(sector_size))


def _check_counts(r1cs: R1cs, facts: dict[str, Any]) -> None:
    assert r1cs.n_inputs == facts["num_inputs"]
    assert r1cs.n_aux == facts["num_aux"]
    assert r1cs.n_constraints == facts["num_constraints"]
    assert r1cs.n_rows == facts["num_constraints_with_input_rows"]
    assert r1cs.nnz == tuple(facts["nnz"][m] for m in "abc")


@pytest.mark.parametrize("sector_size", SIZES)
def test_counts_and_digests(sector_size: int, golden: Path) -> None:
    facts, r1cs = _all_facts(golden)[sector_size], _r1cs(sector_size)
    _check_counts(r1cs, facts)
    got = digest(r1cs)
    assert got.synthesised == facts["r1cs_sha256"]
    assert got.with_input_rows == facts["r1cs_with_input_rows_sha256"]


@LARGE
@pytest.mark.parametrize("sector_size", [2 << 10, 32 << 30, 64 << 30])
def test_digests_of_runs(sector_size: int, golden: Path) -> None:
    facts = _all_facts(golden)[sector_size]
    runs = run_digests(_r1cs(sector_size), facts["chunk_constraints"])
    for expected in facts["chunk_sha256_first16"]:
        assert next(runs)[:32] == expected


def test_counts_of_eleven_layers(golden: Path) -> None:
    r1cs = _r1cs(32 << 30)
    _check_counts(r1cs, _all_facts(golden)[32 << 30])
    wires = challenge_wires(porep_shape(32 << 30))
    assert wires.n_aux == r1cs.block.n_aux
    assert int(wires.bits.word.max()) < wires.bank.n_words


@pytest.mark.parametrize("sector_size", SECTOR_SHAPES)
def test_shape(sector_size: int, golden: Path) -> None:
    facts, shape = _all_facts(golden)[sector_size], porep_shape(sector_size)
    assert n_public_inputs(shape) == facts["num_inputs"]
    assert shape.cache_identifier == facts["cache_identifier"]
    assert 1 << shape.data_levels == shape.sector.n_nodes
    # the fewest challenges a partition with which the partitions make up the minimum
    minimum, ni_minimum = (176, 2253) if sector_size in (32 << 30, 64 << 30) else (2, 26)
    assert shape.n_challenges == -(-minimum // shape.n_partitions)
    assert shape.n_challenges == -(-ni_minimum // shape.ni_partitions)


def test_prologue() -> None:
    head = prologue()
    assert (head.n_constraints, head.n_inputs, head.n_aux) == (571, 3, 571)
