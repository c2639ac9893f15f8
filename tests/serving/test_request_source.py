"""Requests of clients are read as the job files they stand for."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from c1_samples import sample
from torchzk.circuits.circuit import AnyCircuit
from torchzk.circuits.registry import get_circuit
from torchzk.errors import InputError
from torchzk.serving.circuit_ids import circuit_word
from torchzk.serving.engine import Priority, ProofKind, ProofRequest
from torchzk.serving.request_source import check_agrees, source_of


def job_file(golden: Path, name: str) -> dict[str, Any]:
    path = golden / "jobs" / name
    raw = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    said: dict[str, Any] = json.loads(raw)
    return said


def request_of(kind: ProofKind, said: Mapping[str, Any], **more: Any) -> ProofRequest:
    """What a client of cuzk sends for a job file of base64."""
    hashes = ("randomness", "comm_r_old", "comm_r_new", "comm_d_new")
    rest: dict[str, Any] = {name: bytes.fromhex(said[name]) for name in hashes if name in said}
    return ProofRequest(
        request_id="x",
        kind=kind,
        sector_size=said["sector_size"],
        priority=Priority.NORMAL,
        vanilla_proofs=tuple(base64.b64decode(p) for p in said["vanilla_proofs"]),
        miner_id=said["miner_id"],
        sector_number=said.get("sector_number", 0),
        **rest | {"registered_proof": None} | more,
    )


def read(request: ProofRequest) -> Any:
    circuit: AnyCircuit = get_circuit(circuit_word(request.kind), request.sector_size)
    said = source_of(request)
    return circuit.read_job(said.source, miner_id=said.miner_id, sector_number=said.sector_number)


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (ProofKind.WINNING, "sector2k_a_winning"),
        (ProofKind.WINNING, "sector2k_b_winning"),
        (ProofKind.WINDOW, "sector2k_a_window1"),
    ],
)
def test_post(golden: Path, kind: ProofKind, name: str) -> None:
    request = request_of(kind, job_file(golden, f"{name}.bincode.json"))
    circuit: AnyCircuit = get_circuit(circuit_word(kind), 2048)
    there = circuit.read_job(golden / "jobs" / f"{name}.json")
    assert read(request) == there
    # randomness as the chain has it, its top bits set
    raw = request.randomness
    loud = replace(request, randomness=raw[:31] + bytes([raw[31] | 0xC0]))
    assert loud.randomness != raw and read(loud) == there
    number = {ProofKind.WINNING: 0, ProofKind.WINDOW: 5}[kind]
    typed = read(replace(request, registered_proof=number))
    assert typed.registered.number == number


def test_a_window_post_is_one_partition(golden: Path) -> None:
    request = request_of(ProofKind.WINDOW, job_file(golden, "sector2k_b_window3.bincode.json"))
    with pytest.raises(InputError, match="one partition holds at most 2 sectors, has 3"):
        read(request)
    two = replace(request, vanilla_proofs=request.vanilla_proofs[:2], partition_index=4)
    assert read(two).first_partition == 4 and read(two).n_partitions == 1


def test_a_winning_post_is_of_the_sector_that_is_said(golden: Path) -> None:
    request = request_of(ProofKind.WINNING, job_file(golden, "sector2k_a_winning.bincode.json"))
    sector = read(request).sectors[0].sector_id
    assert read(replace(request, sector_number=sector)) == read(request)
    with pytest.raises(InputError, match="sector 77 is not among the vanilla proofs"):
        read(replace(request, sector_number=77))


def test_update(golden: Path) -> None:
    said = job_file(golden, "sector2k_a_update.bincode.json.gz")
    request = request_of(ProofKind.UPDATE, said, registered_proof=None)
    job = read(request)
    there = get_circuit("update", 2048).read_job(
        json.dumps(job_file(golden, "sector2k_a_update.json.gz")).encode()
    )
    assert (job.elements == there.elements).all() and np.array_equal(job.integers, there.integers)
    for name in ("comm_r_old", "comm_r_new", "comm_d_new", "miner_id"):
        assert getattr(job, name) == getattr(there, name)
    with pytest.raises(InputError, match="vanilla_proofs"):
        read(replace(request, vanilla_proofs=request.vanilla_proofs * 2))


def porep_request(payload: bytes, **more: Any) -> ProofRequest:
    request = ProofRequest(
        request_id="x",
        kind=ProofKind.POREP,
        sector_size=2048,
        registered_proof=None,
        priority=Priority.NORMAL,
        vanilla_proofs=(payload,),
    )
    return replace(request, **more)


@pytest.mark.parametrize("form", ["sector2k_a_c1.json", "sector2k_a_c1_wrapper.json"])
def test_porep(form: str) -> None:
    payload = sample(form)
    job = read(porep_request(payload))
    assert job.kind == "porep" and job.sector_size == 2048
    own = job.registered.number
    check_agrees(porep_request(payload, registered_proof=own), job)
    other = porep_request(payload, registered_proof=own + 5)
    with pytest.raises(InputError, match=f"{own + 5} was asked for, the C1 output is {own} "):
        check_agrees(other, job)


def test_a_porep_is_of_the_sector_that_is_said() -> None:
    payload = sample("sector2k_a_c1_wrapper.json")
    number = json.loads(payload)["SectorNum"]
    job = read(porep_request(payload, miner_id=1000, sector_number=number))
    assert (job.miner_id, job.sector_number) == (1000, number)
    with pytest.raises(InputError, match="the sector number is"):
        read(porep_request(payload, miner_id=1000, sector_number=number + 1))
