"""Every kind of job through one door: read, verified, its public inputs and its tensors."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
import torch

from c1_samples import SIZES, compact, parsed, reference, sample
from torchzk.backends import Backend
from torchzk.circuits.job_kinds import Shape, check_job, job_witness, public_inputs, read_job
from torchzk.circuits.porep_job import PorepJob, load_porep_job
from torchzk.circuits.porep_shapes import porep_shape
from torchzk.circuits.porep_witness import PorepWitness
from torchzk.circuits.post_shapes import post_shape
from torchzk.circuits.post_slots import PostSlots
from torchzk.circuits.update_shapes import update_shape
from torchzk.circuits.update_witness import UpdateWitness
from torchzk.errors import InputError
from update_samples import JOBS

SMALL = porep_shape(2048)


def file_of(kind: str) -> tuple[bytes, Shape]:
    """A job of a 2 KiB sector."""
    if kind == "porep":
        return sample("sector2k_a_c1_wrapper.json"), SMALL
    if kind == "update":
        return gzip.decompress((JOBS / "sector2k_a_update.json.gz").read_bytes()), update_shape(
            2048
        )
    name = "window1" if kind == "window" else "winning"
    text = (JOBS / f"sector2k_a_{name}.bincode.json").read_bytes()
    return text, post_shape("window" if kind == "window" else "winning", 2048)


@pytest.mark.parametrize(
    ("kind", "witness", "n_inputs"),
    [
        ("porep", PorepWitness, 39),
        ("update", UpdateWitness, 4),
        ("window", PostSlots, 22),
        ("winning", PostSlots, 132),
    ],
)
def test_through_the_door(
    backend: Backend, device: torch.device, kind: str, witness: type, n_inputs: int
) -> None:
    data, shape = file_of(kind)
    job = read_job(data, shape, miner_id=1000)
    check_job(backend, device, job)
    assert (job.kind, job.sector_size) == (kind, 2048)
    assert job.n_partitions == 1 and job.miner_id == 1000
    assert len(public_inputs(job, 0)) == n_inputs
    assert isinstance(job_witness(backend, device, job, 0), witness)


@pytest.mark.parametrize("kind", ["porep", "update", "window", "winning"])
def test_kinds_are_told_apart(kind: str) -> None:
    data, _ = file_of(kind)
    for other in ("porep", "update", "window", "winning"):
        if other != kind:
            _, shape = file_of(other)
            wanted = f"circuit is {other}-2KiB"
            with pytest.raises(InputError, match=wanted):
                read_job(data, shape)


@pytest.mark.parametrize("kind", ["update", "window"])
def test_another_miners_job(kind: str) -> None:
    data, shape = file_of(kind)
    with pytest.raises(InputError, match="^job: the miner id is 1000, 1001 was asked for"):
        read_job(data, shape, miner_id=1001)


def test_whose_sector_a_c1_is(tmp_path: Path, backend: Backend, device: torch.device) -> None:
    path = tmp_path / "c1.json"
    path.write_bytes(sample("sector2k_a_c1_wrapper.json"))
    with pytest.raises(InputError, match="c1.json: the sector number is 1, 2 was asked for"):
        load_porep_job(path, SMALL, sector_number=2)
    # a file that does not say whose sector it is, is not asked
    check_job(backend, device, read_job(path, SMALL))
    with pytest.raises(InputError, match="^replica_id .* is not that of miner 1001, sector 1, "):
        check_job(backend, device, read_job(path, SMALL, miner_id=1001))
    said = {"kind": "porep", "c1": parsed("sector2k_a"), "miner_id": 1000, "sector_number": 2}
    with pytest.raises(InputError, match="the miner id is 1000, 1001 was asked for"):
        read_job(compact(said), SMALL, miner_id=1001)
    with pytest.raises(InputError, match="^replica_id .* sector 2, "):
        check_job(backend, device, read_job(compact(said), SMALL))


@pytest.mark.parametrize("name", SIZES)
def test_public_inputs_of_poreps(name: str) -> None:
    job = read_job(sample(f"{name}_c1.json"), porep_shape(SIZES[name]))
    assert isinstance(job, PorepJob)
    expected = reference(name)["public_inputs_hex_le"]
    assert job.n_partitions == len(expected)
    for partition, values in enumerate(expected):
        assert public_inputs(job, partition) == [
            int.from_bytes(bytes.fromhex(x), "little") for x in values
        ]


def test_a_post_job_is_not_mistaken_for_a_c1() -> None:
    job = json.loads((JOBS / "sector2k_a_window1.json").read_bytes())
    with pytest.raises(InputError, match="kind: the job is for 'window', the circuit is porep-2K"):
        read_job(job, SMALL)
