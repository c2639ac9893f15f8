"""Keys of served circuits: loaded once, held while they are used, given back."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from torchzk.errors import ConfigError, KeyFileError, NotFoundError, ResourceError
from torchzk.serving import circuit_prover, circuit_sites
from torchzk.serving.circuit_prover import CircuitProver
from torchzk.serving.circuit_sites import CircuitSites
from torchzk.serving.engine import Evicted, KeyReport, Preloaded, Priority, ProofKind, ProofRequest


class Keys:
    """Counts how often a key is loaded, and how many are there."""

    def __init__(self) -> None:
        self.loaded = self.there = 0
        self.broken = False
        self.slowly = threading.Event()
        self.slowly.set()

    @contextmanager
    def open_sites(self, sessions: Sequence[Any]) -> Iterator[list[Any]]:
        if self.broken:
            raise KeyFileError("the key is damaged")
        assert self.slowly.wait(120)
        self.loaded += 1
        self.there += 1
        keys = SimpleNamespace(stays=False, where="host", insecure=self.loaded == 1)
        try:
            yield [
                SimpleNamespace(session=session, keys=keys, device=str(session.device))
                for session in sessions
            ]
        finally:
            self.there -= 1


@pytest.fixture
def keys(monkeypatch: pytest.MonkeyPatch) -> Keys:
    made = Keys()
    monkeypatch.setattr(circuit_sites, "open_sites", made.open_sites)
    return made


def sites_of(name: str, warned: list[str] | None = None) -> CircuitSites:
    import torch

    session: Any = SimpleNamespace(
        circuit=SimpleNamespace(name=name),
        plan=SimpleNamespace(key_bytes=100),
        device=torch.device("cpu"),
    )
    return CircuitSites([session], ([] if warned is None else warned).append)


def test_a_key_is_loaded_once_and_held_while_it_is_used(keys: Keys) -> None:
    warned: list[str] = []
    circuit = sites_of("window-2KiB", warned)
    assert circuit.report() is None and circuit.evict() == Evicted(False, 0)
    sites, give_back = circuit.lease()
    _, give_back_too = circuit.lease()
    assert list(sites) == ["cpu"] and (keys.loaded, keys.there) == (1, 1)
    assert circuit.preload() == Preloaded(True, 0.0)
    there = KeyReport(circuit_id="window-2KiB", place="pinned", size_bytes=100, users=2)
    assert circuit.report() == there
    with pytest.raises(ResourceError, match="window-2KiB: 2 jobs hold the key"):
        circuit.evict()
    give_back()
    give_back()
    with pytest.raises(ResourceError, match="1 jobs hold the key"):
        circuit.evict()
    give_back_too()
    assert circuit.evict() == Evicted(True, 100) and keys.there == 0
    assert not circuit.preload().already_loaded and keys.loaded == 2
    circuit.close()
    circuit.close()
    assert keys.there == 0 and circuit.sites() == []
    assert len(warned) == 1 and "INSECURE KEY" in warned[0]


def test_a_key_that_is_broken_can_be_mended(keys: Keys) -> None:
    circuit = sites_of("window-2KiB")
    keys.broken = True
    for _ in range(2):
        with pytest.raises(KeyFileError, match="the key is damaged"):
            circuit.lease()
    keys.broken = False
    circuit.lease()
    assert keys.there == 1


def test_many_want_it_at_once_and_nobody_who_looks_waits(keys: Keys) -> None:
    circuit = sites_of("window-2KiB")
    keys.slowly.clear()
    threads = [threading.Thread(target=circuit.lease) for _ in range(8)]
    for thread in threads:
        thread.start()
    assert circuit.report() is None
    keys.slowly.set()
    for thread in threads:
        thread.join()
    report = circuit.report()
    assert report is not None and report.users == 8 and keys.loaded == 1


def request(kind: ProofKind, sector_size: int = 2048) -> ProofRequest:
    return ProofRequest(
        request_id="x",
        kind=kind,
        sector_size=sector_size,
        registered_proof=None,
        priority=Priority.NORMAL,
        vanilla_proofs=(b"no proof",),
        randomness=bytes(32),
    )


def test_a_prover_serves_its_circuits(keys: Keys) -> None:
    prover = CircuitProver([sites_of("window-2KiB"), sites_of("winning-2KiB")], workers=3)
    prover.admit(request(ProofKind.WINDOW))
    for wrong in (request(ProofKind.POREP), request(ProofKind.WINDOW, 32 << 30)):
        with pytest.raises(ConfigError, match="is not served here; served are: window-2KiB, winn"):
            prover.admit(wrong)
    with pytest.raises(NotFoundError, match="porep-2KiB is not served here"):
        prover.preload("porep-2KiB")
    prover.preload("winning-2KiB")
    (key,) = prover.keys()
    assert key.circuit_id == "winning-2KiB"
    devices = prover.devices()
    assert [(d.ordinal, d.name) for d in devices] == [(0, "cpu")] * 3
    assert 0 < devices[0].vram_free_bytes <= devices[0].vram_total_bytes


def test_work_holds_its_key_until_it_is_forgotten(
    keys: Keys, monkeypatch: pytest.MonkeyPatch
) -> None:
    circuit = sites_of("window-2KiB")
    work = CircuitProver([circuit], None).work(request(ProofKind.WINDOW))
    assert keys.loaded == 0
    # the stand-ins cannot read a job
    for name in ("read_job", "check_kind"):
        monkeypatch.setattr(circuit_prover, name, lambda *_: SimpleNamespace(n_partitions=1))
    work.read()
    with pytest.raises(ResourceError, match="1 jobs hold"):
        circuit.evict()
    del work
    assert circuit.evict().was_loaded
