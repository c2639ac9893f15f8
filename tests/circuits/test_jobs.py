"""Job files of the reference: both forms load the same, with its public inputs."""

from __future__ import annotations

import gzip
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from torchzk.circuits.miner_id import prover_id
from torchzk.circuits.post import n_public_inputs
from torchzk.circuits.post_job import load_post_job
from torchzk.circuits.post_shapes import PostShape, post_shape
from torchzk.circuits.randomness_file import load_randomisers
from torchzk.circuits.slots import public_inputs

WINDOW = post_shape("window", 2048)
JOBS = {
    "sector2k_a_window1": WINDOW,
    "sector2k_a_winning": post_shape("winning", 2048),
    "sector2k_b_window3": WINDOW,
    "sector2k_b_winning": post_shape("winning", 2048),
}
LARGE = {
    "synth32g_winning": post_shape("winning", 32 << 30),
    "synth64g_winning": post_shape("winning", 64 << 30),
}


def reference(golden: Path, name: str) -> dict[str, Any]:
    """Sector ids, prover id and public inputs that the reference found."""
    figures: dict[str, Any] = json.loads((golden / "jobs" / "public_inputs.json").read_text())
    return dict(figures[name])


def as_integers(hexes: list[str]) -> list[int]:
    return [int.from_bytes(bytes.fromhex(x), "little") for x in hexes]


@pytest.mark.parametrize(("name", "shape"), JOBS.items())
def test_both_forms_are_one(golden: Path, name: str, shape: PostShape) -> None:
    job = load_post_job(golden / "jobs" / f"{name}.json", shape)
    assert job == load_post_job(golden / "jobs" / f"{name}.bincode.json", shape)
    text = (golden / "jobs" / f"{name}.json").read_bytes()
    assert job == load_post_job(text, shape)
    assert job == load_post_job(json.loads(text), shape)
    figures = reference(golden, name)
    assert (job.kind, job.sector_size) == (shape.kind, 2048)
    assert [sector.sector_id for sector in job.sectors] == figures["sector_ids"]
    assert prover_id(job.miner_id).hex() == figures["prover_id"]
    assert job.randomness.hex() == json.loads(text)["randomness"]
    assert job.n_partitions == len(figures["public_inputs_hex_le"])


@pytest.mark.parametrize(("name", "shape"), (JOBS | LARGE).items())
def test_public_inputs(golden: Path, name: str, shape: PostShape) -> None:
    plain, packed = golden / "jobs" / f"{name}.json", golden / "jobs" / f"{name}.json.gz"
    job = load_post_job(plain if plain.exists() else gzip.decompress(packed.read_bytes()), shape)
    expected = reference(golden, name)["public_inputs_hex_le"]
    got = [public_inputs(job, i) for i in range(job.n_partitions)]
    assert got == [as_integers(partition) for partition in expected]
    assert {1 + len(inputs) for inputs in got} == {n_public_inputs(shape)}


@pytest.mark.parametrize("partition_index", [None, 0, 3])
def test_challenges_before_1_2_run_on(golden: Path, partition_index: int | None) -> None:
    """The indexes of API 1.0.0 depend on the partition; padding repeats, it does not run on."""
    job = json.loads((golden / "jobs" / "sector2k_b_window3.json").read_text())
    job["registered_proof"] = "StackedDrgWindow2KiBV1"
    first = 0
    if partition_index is not None:
        first = job["partition_index"] = partition_index
        job["vanilla_proofs"] = job["vanilla_proofs"][:1]
    loaded = load_post_job(job, WINDOW)
    places = [[0, 1], [2]] if partition_index is None else [[2 * first]]
    assert loaded.n_partitions == len(places)
    ids = iter([2, 3, 4])
    for index, slots in enumerate(places):
        groups = [leaves_by_hand(job["randomness"], next(ids), 10 * place) for place in slots]
        groups += [groups[-1]] * (2 - len(groups))
        got = public_inputs(loaded, index)
        assert [got[1:11], got[12:22]] == groups


def leaves_by_hand(randomness: str, sector_id: int, first: int) -> list[int]:
    leaves = []
    for index in range(first, first + 10):
        message = bytes.fromhex(randomness) + b"".join(
            x.to_bytes(8, "little") for x in (sector_id, index)
        )
        leaves.append(int.from_bytes(hashlib.sha256(message).digest()[:8], "little") % 64)
    return leaves


@pytest.mark.parametrize(
    ("miner_id", "digits"),
    [
        (0, "00"),
        (127, "7f"),
        (128, "8001"),
        (1000, "e807"),
        (624485, "e58e26"),
        ((1 << 64) - 1, "ffffffffffffffffff01"),
    ],
)
def test_prover_id(miner_id: int, digits: str) -> None:
    assert prover_id(miner_id).hex() == digits.ljust(64, "0")


def test_optional_keys(golden: Path) -> None:
    text = (golden / "jobs" / "sector2k_b_window3.bincode.json").read_text()
    job = json.loads(text) | {"registered_proof": 10, "sector_number": 3}
    assert load_post_job(job, WINDOW) == load_post_job(text.encode(), WINDOW)
    job = json.loads(text) | {"registered_proof": 5}
    assert load_post_job(job, WINDOW).registered.name == "StackedDrgWindow2KiBV1"


@pytest.mark.parametrize("name", JOBS)
def test_randomisers(golden: Path, name: str) -> None:
    path = golden / "jobs" / f"{name}.rs.json"
    pairs = json.loads(path.read_text())
    got = load_randomisers(path, len(pairs))
    assert [(x.r, x.s) for x in got] == [
        tuple(as_integers([pair["r"], pair["s"]])) for pair in pairs
    ]
