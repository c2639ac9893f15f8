"""Work that cannot fit is refused with the numbers before it begins."""

from __future__ import annotations

from pathlib import Path

import pytest

from torchzk import api
from torchzk.config import CircuitConfig, Config
from torchzk.errors import ResourceError
from torchzk.scheduler import machine
from torchzk.scheduler.dev_keys import check_making


def session_of(sector_size: int, folder: Path) -> api.Session:
    circuit = CircuitConfig(kind="window", sector_size=sector_size)
    keys, blocks = folder / "keys", folder / "blocks"
    config = Config(circuit=circuit, keys="dev", key_cache=keys, block_cache=blocks, device="cpu")
    return api.open_session(config)


def with_memory(monkeypatch: pytest.MonkeyPatch, n_bytes: int) -> None:
    monkeypatch.setattr(machine, "memory", lambda: machine.Memory(64 << 30, n_bytes, None))


def test_what_a_key_takes(tmp_path: Path) -> None:
    session = session_of(32 << 30, tmp_path)
    # 57 GiB: spec/groth16.md section 9
    assert 60e9 < session.sizes.lengths.n_bytes < 61e9
    # two vectors, and points that are written as they are made
    assert 8.3e9 < session.making_key < 12e9


def test_too_large_a_circuit_is_refused_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_memory(monkeypatch, 23 << 30)
    session = session_of(32 << 30, tmp_path)
    with pytest.raises(ResourceError, match=r"window-32GiB takes .* and 23\.0 GiB may be had"):
        api.get_keys(session)
    assert not (tmp_path / "keys").exists()


def test_a_key_that_the_disk_has_no_room_for_is_not_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "disk_free", lambda folder: 11_000_000)
    with pytest.raises(
        ResourceError, match=r"the key of window-2KiB takes 11\.0 MiB in .*/keys, 10\.5"
    ):
        api.get_keys(session_of(2048, tmp_path))
    assert not (tmp_path / "keys").exists()


def test_a_key_is_made_where_there_is_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session = session_of(2048, tmp_path)
    need = session.making_key
    with_memory(monkeypatch, need)
    check_making(session, stays=False)
    with pytest.raises(ResourceError, match="making a key of window-2KiB takes about"):
        check_making(session, stays=True)
    with_memory(monkeypatch, need - 1)
    with pytest.raises(ResourceError, match="making a key of window-2KiB takes about"):
        check_making(session, stays=False)
