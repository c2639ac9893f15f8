"""Work that cannot fit is refused with the numbers before it begins."""

from __future__ import annotations

from pathlib import Path

import pytest

from torchzk import api
from torchzk.config import CircuitConfig, Config
from torchzk.errors import ResourceError
from torchzk.scheduler import machine
from torchzk.scheduler.memory_need import check_memory, proving_need, setup_need


def session_of(sector_size: int, folder: Path) -> api.Session:
    circuit = CircuitConfig(kind="window", sector_size=sector_size)
    return api.open_session(Config(circuit=circuit, keys="dev", key_cache=folder, device="cpu"))


def test_needs_grow_with_the_circuit(tmp_path: Path) -> None:
    small, large = (session_of(n, tmp_path).circuit.r1cs() for n in (2048, 32 << 30))
    # the key's file has 57 GB, spec/groth16.md section 9
    assert setup_need(large) - proving_need(large) > 57e9
    assert proving_need(small) < 2 << 30 < 30 << 30 < proving_need(large)


def test_too_large_a_circuit_is_refused_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "memory", lambda: machine.Memory(24 << 30, 23 << 30, None))
    session = session_of(32 << 30, tmp_path)
    with pytest.raises(ResourceError, match=r"window-32GiB takes about .* 23\.0 GiB are available"):
        api.get_keys(session)
    assert not any(tmp_path.iterdir())


def test_what_fits_is_let_through(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "memory", lambda: machine.Memory(8 << 30, 8 << 30, 2 << 30))
    session = session_of(2048, tmp_path)
    check_memory(session, 2 << 30, "proving")
    with pytest.raises(ResourceError, match=r"2\.0 GiB are available"):
        check_memory(session, (2 << 30) + 1, "proving")
