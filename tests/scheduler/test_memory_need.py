"""Work that cannot fit is refused with the numbers before it begins."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest
import torch

from torchzk import api
from torchzk.backends import BackendName
from torchzk.circuits.registry import get_circuit
from torchzk.config import CircuitConfig, Config
from torchzk.errors import ResourceError
from torchzk.groth16.lengths import expected_lengths
from torchzk.groth16.prover import Room
from torchzk.params.curves import G1, G2
from torchzk.scheduler import machine
from torchzk.scheduler.memory_need import (
    check_memory,
    key_bytes,
    key_stays,
    msm_room,
    proving_need,
    setup_need,
)

CPU, CUDA = torch.device("cpu"), torch.device("cuda", 0)


def session_of(sector_size: int, folder: Path) -> api.Session:
    circuit = CircuitConfig(kind="window", sector_size=sector_size)
    keys, blocks = folder / "keys", folder / "blocks"
    config = Config(circuit=circuit, keys="dev", key_cache=keys, block_cache=blocks, device="cpu")
    return api.open_session(config)


def test_needs_grow_with_the_circuit(tmp_path: Path) -> None:
    small, large = (session_of(n, tmp_path).r1cs for n in (2048, 32 << 30))
    # the key's file has 57 GB, spec/groth16.md section 9
    assert key_bytes(expected_lengths(large)) > 57e9
    # points are written as they are made
    assert 50e9 < setup_need(large) < 57e9
    for backend in get_args(BackendName):
        assert proving_need(small, backend) < 2 << 30 < 30 << 30 < proving_need(large, backend)
    # a PoRep of 2 KiB, 2^22 rows, took 3.5 GiB with the reference
    porep = get_circuit("porep", 2048).r1cs()
    assert 3.5 * 2**30 < proving_need(porep, "torch") < 4.5 * 2**30


def test_too_large_a_circuit_is_refused_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "memory", lambda: machine.Memory(24 << 30, 23 << 30, None))
    session = session_of(32 << 30, tmp_path)
    with pytest.raises(ResourceError, match=r"window-32GiB takes about .* 23\.0 GiB are available"):
        api.get_keys(session)
    assert not (tmp_path / "keys").exists()


def test_a_key_that_the_disk_has_no_room_for_is_not_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "disk_free", lambda folder: 11_000_000)
    with pytest.raises(ResourceError, match=r"the key of window-2KiB takes 0\.0 GiB in .*/keys, 0"):
        api.get_keys(session_of(2048, tmp_path))
    assert not (tmp_path / "keys").exists()


def test_what_fits_is_let_through(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "memory", lambda: machine.Memory(8 << 30, 8 << 30, 2 << 30))
    session = session_of(2048, tmp_path)
    check_memory(session, 2 << 30, "proving")
    with pytest.raises(ResourceError, match=r"2\.0 GiB are available"):
        check_memory(session, (2 << 30) + 1, "proving")


def test_a_key_stays_on_a_gpu_that_has_room_for_it(tmp_path: Path) -> None:
    r1cs = session_of(32 << 30, tmp_path).r1cs
    need = key_bytes(expected_lengths(r1cs)) + proving_need(r1cs, "triton")
    assert key_stays(CUDA, "triton", r1cs, need) and not key_stays(CUDA, "triton", r1cs, need - 1)
    # the reference needs more room, so that there is less for a key
    assert not key_stays(CUDA, "torch", r1cs, need)
    assert not key_stays(CPU, "torch", r1cs, 1 << 50)


def test_multiplications_take_what_a_gpu_has_free(tmp_path: Path) -> None:
    r1cs = session_of(32 << 30, tmp_path).r1cs
    lengths = expected_lengths(r1cs)
    assert msm_room(CPU, "torch", r1cs, 1 << 50, key_is_there=False) == Room()
    # one call a query, where the key is there
    there = msm_room(CUDA, "triton", r1cs, 60 << 30, key_is_there=True)
    longest = max(lengths.h, lengths.l, lengths.a, lengths.b_g1)
    assert min(there.points(G1), there.points(G2)) >= longest > 100_000_000
    assert 30 << 30 < there.scratch_bytes <= 40 << 30
    # the reference's scratch is not measured beyond a CPU's
    reference = msm_room(CUDA, "torch", r1cs, 60 << 30, key_is_there=True)
    assert reference == replace(there, scratch_bytes=Room().scratch_bytes)
    # points on their way take a part of what is free, which the scratch then does not
    free = 40 << 30
    streamed = msm_room(CUDA, "triton", r1cs, free, key_is_there=False)
    assert streamed.points(G1) * 96 + streamed.scratch_bytes < free
    assert streamed.points(G2) * 192 + streamed.scratch_bytes < free
    assert streamed.points(G1) > 50_000_000
    # never less than a CPU's
    assert msm_room(CUDA, "triton", r1cs, 0, key_is_there=False) == Room()
