"""Every circuit through one door: found by name, jobs read and verified, assignments satisfied."""

from __future__ import annotations

import gzip
import json
from functools import cache
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest
import torch

from c1_samples import SIZES, compact, parsed, reference, sample
from torchzk.backends import Backend
from torchzk.circuits.circuit import AnyCircuit
from torchzk.circuits.job_head import JOB_KINDS
from torchzk.circuits.registry import KINDS, get_circuit
from torchzk.circuits.sectors import SECTOR_SHAPES
from torchzk.config import CircuitConfig
from torchzk.errors import ConfigError, InputError
from torchzk.groth16.products import products, unsatisfied_row
from torchzk.groth16.r1cs import R1cs
from torchzk.ops.layout import unpack_mont
from torchzk.params.fields import FR
from update_samples import JOBS

POREP = get_circuit("porep", 2048)


@cache
def r1cs_of(circuit: AnyCircuit) -> R1cs:
    return circuit.r1cs()


def file_of(kind: str) -> bytes:
    """A job of a 2 KiB sector."""
    if kind == "porep":
        return sample("sector2k_a_c1_wrapper.json")
    if kind == "update":
        return gzip.decompress((JOBS / "sector2k_a_update.json.gz").read_bytes())
    name = "window1" if kind == "window" else "winning"
    return (JOBS / f"sector2k_a_{name}.bincode.json").read_bytes()


@pytest.mark.parametrize("kind", KINDS)
def test_from_a_job_to_an_assignment(backend: Backend, device: torch.device, kind: str) -> None:
    circuit = get_circuit(kind, 2048)
    job = circuit.read_job(file_of(kind), miner_id=1000, sector_number=1)
    circuit.check_job(backend, device, job)
    assert (job.kind, job.sector_size, job.miner_id) == (kind, 2048, 1000)
    assert job.n_partitions == 1 and circuit.notes(job) == []
    r1cs = r1cs_of(circuit)
    assert r1cs.n_inputs == circuit.n_inputs
    assignment = circuit.assignment(backend, circuit.witness(backend, device, job, 0))
    assert unpack_mont(assignment.inputs, FR) == [1, *circuit.public_inputs(job, 0)]
    assert unsatisfied_row(backend, *products(backend, r1cs, assignment)) is None


def test_kinds_are_those_of_jobs_and_configs() -> None:
    assert KINDS == JOB_KINDS == get_args(get_type_hints(CircuitConfig)["kind"])


@pytest.mark.parametrize("kind", KINDS)
def test_every_size(kind: str) -> None:
    """Sizes and names; what is proven of them is for the tests of each circuit."""
    sizes = [size for size in SECTOR_SHAPES if kind != "update" or size != 1 << 30]
    circuits = [get_circuit(kind, size) for size in sizes]
    assert [circuit.sector_size for circuit in circuits] == sizes
    assert [c.name for c in circuits] == [f"{kind}-{SECTOR_SHAPES[n].name}" for n in sizes]
    assert len({circuit.cache_identifier for circuit in circuits}) == len(sizes)
    # equal circuits are one
    assert circuits == [get_circuit(kind, size) for size in sizes]


@pytest.mark.parametrize(
    ("size", "name"),
    [
        (2 << 10, "8-0-0-fb9e095bebdd77511c0269b967b4d87ba8b8a525edaa0e165de23ba454510194"),
        (32 << 30, "8-8-0-3b7f44a9362e3985369454947bc94022e118211e49fd672d52bec1cbfd599d18"),
        (64 << 30, "8-8-2-102e1444a7e9a97ebf1e3d6855dcc77e66c011ea66f936d9b2c508f87f2f83a7"),
    ],
)
def test_official_names_of_updates(size: int, name: str) -> None:
    expected = f"empty-sector-update-merkletree-poseidon_hasher-{name}"
    assert get_circuit("update", size).cache_identifier == expected


@pytest.mark.parametrize(
    ("kind", "sector_size", "message"),
    [
        ("windows", 2048, "no circuit 'windows'; there are porep, winning, window, update$"),
        ("window", 2049, r"no window circuit of 2049 byte sectors; there are 2048 \(2KiB\), "),
        ("porep", 3, r"no porep circuit of 3 byte .* 1073741824 \(1GiB\)"),
        ("winning", 0, "no winning circuit of 0 byte sectors"),
        (
            "update",
            1 << 30,
            r"no update circuit of 1073741824 .* \(512MiB\), 34359738368",
        ),
    ],
)
def test_an_unknown_circuit_is_refused(kind: str, sector_size: int, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        get_circuit(kind, sector_size)


@pytest.mark.parametrize("kind", KINDS)
def test_kinds_are_told_apart(kind: str) -> None:
    data = file_of(kind)
    for other in KINDS:
        if other != kind:
            with pytest.raises(InputError, match=f"circuit is {other}-2KiB"):
                get_circuit(other, 2048).read_job(data)


@pytest.mark.parametrize("kind", ["update", "window", "winning"])
def test_another_miners_job(kind: str) -> None:
    circuit, data = get_circuit(kind, 2048), file_of(kind)
    with pytest.raises(InputError, match="^job: the miner id is 1000, 1001 was asked for"):
        circuit.read_job(data, miner_id=1001)
    said = json.loads(data) | {"sector_number": 1}
    expected = "sector number is 1, 2 was asked" if kind == "update" else "sector 2 is not among"
    with pytest.raises(InputError, match=f"^job: .*{expected}"):
        circuit.read_job(said, sector_number=2)


def test_whose_sector_a_c1_is(tmp_path: Path, backend: Backend, device: torch.device) -> None:
    path = tmp_path / "c1.json"
    path.write_bytes(sample("sector2k_a_c1_wrapper.json"))
    with pytest.raises(InputError, match="c1.json: the sector number is 1, 2 was asked for"):
        POREP.read_job(path, sector_number=2)

    def check(**numbers: Any) -> None:
        POREP.check_job(backend, device, POREP.read_job(path, **numbers))

    # a file that does not say whose sector it is, is not asked
    check()
    with pytest.raises(InputError, match="^replica_id .* is not that of miner 1001, sector 1, "):
        check(miner_id=1001)
    said = {"kind": "porep", "c1": parsed("sector2k_a"), "miner_id": 1000, "sector_number": 2}
    path.write_bytes(compact(said))
    with pytest.raises(InputError, match="the miner id is 1000, 1001 was asked for"):
        check(miner_id=1001)
    with pytest.raises(InputError, match="^replica_id .* sector 2, "):
        check()


@pytest.mark.parametrize("name", SIZES)
def test_public_inputs_of_poreps(name: str) -> None:
    circuit = get_circuit("porep", SIZES[name])
    job = circuit.read_job(sample(f"{name}_c1.json"))
    expected = reference(name)["public_inputs_hex_le"]
    assert job.n_partitions == len(expected)
    for partition, values in enumerate(expected):
        assert circuit.public_inputs(job, partition) == [
            int.from_bytes(bytes.fromhex(x), "little") for x in values
        ]


def test_what_is_said_of_a_porep() -> None:
    (unknown,) = POREP.notes(POREP.read_job(sample("sector2k_a_c1.json")))
    assert unknown == "replica_id is taken as it is: no miner id and no sector number is known"
    (unknown,) = POREP.notes(POREP.read_job(sample("sector2k_a_c1_wrapper.json")))
    assert unknown == "replica_id is taken as it is: no miner id is known"
    data = sample("sector2k_ni_c1.json")
    (alone,) = POREP.notes(POREP.read_job(data, miner_id=1000, sector_number=12))
    assert alone.startswith("NOT AGGREGATED: a non-interactive PoRep, 13 proofs")


def test_a_post_job_is_not_mistaken_for_a_c1() -> None:
    job = json.loads((JOBS / "sector2k_a_window1.json").read_bytes())
    with pytest.raises(InputError, match="kind: the job is for 'window', the circuit is porep-2K"):
        POREP.read_job(job)
