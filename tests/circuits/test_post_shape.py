"""FallbackPoSt's constraint systems against the reference, at every size."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import Any, get_args

import pytest

from r1cs_digest import digest, run_digests
from torchzk.circuits.post import n_public_inputs, post_r1cs
from torchzk.circuits.post_shapes import PostShape
from torchzk.circuits.registered import PostKind
from torchzk.circuits.registry import get_circuit
from torchzk.circuits.sectors import SECTOR_SHAPES, SectorShape, TreeShape
from torchzk.groth16.density import expected_lengths
from torchzk.groth16.keys import QueryLengths

CASES = [(kind, size) for kind in get_args(PostKind) for size in SECTOR_SHAPES]
HUGE = [("window", 32 << 30), ("window", 64 << 30)]


@lru_cache(maxsize=1)
def _all_facts(golden: Path) -> dict[tuple[str, int], dict[str, Any]]:
    rows = json.loads((golden / "post_r1cs.json").read_text())
    return {(row["kind"], row["sector_size"]): row for row in rows}


@pytest.mark.parametrize(("kind", "sector_size"), CASES)
def test_counts_and_name(kind: str, sector_size: int, golden: Path) -> None:
    facts = _all_facts(golden)[kind, sector_size]
    circuit = get_circuit(kind, sector_size)
    r1cs = circuit.r1cs()
    assert r1cs.n_inputs == circuit.n_inputs == facts["num_inputs"]
    assert r1cs.n_aux == facts["num_aux"]
    assert r1cs.n_constraints == facts["num_constraints"]
    assert r1cs.n_rows == facts["num_constraints_with_input_rows"]
    assert r1cs.nnz == tuple(facts["nnz"][m] for m in "abc")
    assert circuit.cache_identifier == facts["cache_identifier"]
    assert circuit.name == f"{kind}-{SECTOR_SHAPES[sector_size].name}"


def _check_digest(kind: str, sector_size: int, golden: Path) -> None:
    facts = _all_facts(golden)[kind, sector_size]
    got = digest(get_circuit(kind, sector_size).r1cs())
    assert got.synthesised == facts["r1cs_sha256"]
    assert got.with_input_rows == facts["r1cs_with_input_rows_sha256"]


@pytest.mark.parametrize(("kind", "sector_size"), [c for c in CASES if c not in HUGE])
def test_digest(kind: str, sector_size: int, golden: Path) -> None:
    _check_digest(kind, sector_size, golden)


@pytest.mark.full("hashes 45 GB a circuit")
@pytest.mark.parametrize(("kind", "sector_size"), HUGE)
def test_digest_of_the_largest(kind: str, sector_size: int, golden: Path) -> None:
    _check_digest(kind, sector_size, golden)


@pytest.mark.parametrize(("kind", "sector_size"), [("winning", 2048), *HUGE])
def test_digests_of_runs(kind: str, sector_size: int, golden: Path) -> None:
    facts = _all_facts(golden)[kind, sector_size]
    runs = run_digests(get_circuit(kind, sector_size).r1cs(), facts["chunk_constraints"])
    for expected in facts["chunk_sha256_first16"]:
        assert next(runs)[:32] == expected


@pytest.mark.parametrize(
    ("tree", "n_slots", "n_challenges", "n_inputs", "n_constraints"),
    [
        (TreeShape(2, 0, 0), 3, 5, 19, 16_869),
        (TreeShape(2, 4, 0), 3, 5, 19, 22_674),
        (TreeShape(2, 4, 2), 3, 5, 19, 27_384),
        (TreeShape(2, 0, 0), 2, 5, 13, 11_246),
        (TreeShape(10, 0, 0), 5, 10, 56, 266_665),
    ],
    ids=["8", "8-4", "8-4-2", "8, two slots", "32GiB, five slots"],
)
def test_counts_of_the_reference_tests(
    tree: TreeShape, n_slots: int, n_challenges: int, n_inputs: int, n_constraints: int
) -> None:
    shape = PostShape("window", SectorShape(0, "none", tree), n_slots, n_challenges)
    r1cs = post_r1cs(shape)
    assert r1cs.n_inputs == n_public_inputs(shape) == n_inputs
    assert r1cs.n_constraints == n_constraints


@pytest.mark.parametrize(
    ("kind", "sector_size", "h", "l", "a", "b"),
    [
        ("winning", 2 << 10, 131_071, 91_674, 69_433, 66_793),
        ("window", 32 << 30, 134_217_727, 126_902_376, 96_205_645, 91_925_767),
    ],
)
def test_query_lengths(kind: str, sector_size: int, h: int, l: int, a: int, b: int) -> None:  # noqa: E741
    lengths = expected_lengths(get_circuit(kind, sector_size).r1cs())
    assert lengths == QueryLengths(h=h, l=l, a=a, b_g1=b, b_g2=b)
