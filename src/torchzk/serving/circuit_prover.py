"""The prover of a service: requests of any served circuit as work for the scheduler."""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import torch

from torchzk.errors import ConfigError, NotFoundError, ProtocolError
from torchzk.scheduler import machine
from torchzk.scheduler.pipeline import check_job, check_kind, read_job
from torchzk.scheduler.proof_work import ProofPartition, ProofWork, Site
from torchzk.scheduler.worker_device import WORKERS, Device
from torchzk.serving.circuit_ids import circuit_name_of
from torchzk.serving.circuit_sites import CircuitSites
from torchzk.serving.engine import DeviceReport, Evicted, KeyReport, Preloaded, ProofRequest
from torchzk.serving.fault_stages import faulty_partitions, write_stages
from torchzk.serving.request_source import check_agrees, source_of
from torchzk.timeline import Timeline


def _nothing() -> None:
    """Nothing is held yet."""


class RequestWork:
    """One request as a `JobWork`. Its circuit's key is there once it is read, until its end."""

    def __init__(self, circuit: CircuitSites, request: ProofRequest) -> None:
        self._circuit = circuit
        self._request: ProofRequest | None = request
        self._inner: ProofWork | None = None
        self._sites: Mapping[str, Site] = {}
        self._made: dict[int, tuple[Site, ProofPartition]] = {}
        self._give_back: Callable[[], object] = _nothing
        self.key_seconds = 0.0
        """How long it waited for its key."""

    @property
    def n_partitions(self) -> int:
        return self._proof.n_partitions

    def read(self) -> None:
        """Read the request, and then get the key if it is not there.

        In this order: what contradicts itself costs nobody a key.

        Raises:
            InputError: The request is no job, or contradicts itself.
            KeyFileError: The key is damaged or not there.
            ResourceError: There is not the memory for the key.
        """
        request, self._request = self._request, None
        if request is None:
            raise ProtocolError("a request is read twice")
        said, session = source_of(request), self._circuit.sessions[0]
        job = read_job(session, said.source, said.miner_id, said.sector_number)
        check_kind(session, job)
        check_agrees(request, job)
        began = time.monotonic()
        sites, give_back = self._circuit.lease()
        self.key_seconds, self._sites = time.monotonic() - began, sites
        # however its job ends, and whoever forgets it
        self._give_back = weakref.finalize(self, give_back)
        self._inner = ProofWork(sites, job)

    def check(self) -> None:
        """Verify the vanilla proofs; raises `InputError` for the first that fails."""
        check_job(self._circuit.sessions[0], self._proof.job)
        self._proof.check()

    def partition(self, index: int, device: Device, timeline: Timeline) -> ProofPartition:
        made = self._proof.partition(index, device, timeline)
        self._made[index] = self._sites[device.name], made
        return made

    def finish(self, pieces: Sequence[bytes]) -> bytes:
        """As `ProofWork.finish`; the key is nothing to it afterwards."""
        try:
            return self._proof.finish(pieces)
        finally:
            self._give_back()

    def give_back(self) -> None:
        """As `HoldsKey.give_back`."""
        self._give_back()

    def faulty(self, pieces: Sequence[bytes]) -> Sequence[int]:
        """As `NamesFaults.faulty`."""
        site = next(iter(self._sites.values()))
        return faulty_partitions(site.session, site.keys.verifying, self._proof.job, pieces)

    def explain(self, partitions: Sequence[int], folder: Path) -> None:
        """As `NamesFaults.explain`, of partitions that were proved in this process."""
        made = {k: self._made[k] for k in partitions if k in self._made}
        parts = {k: (site, part.sums) for k, (site, part) in made.items()}
        write_stages(folder, self._proof.job, parts)

    @property
    def _proof(self) -> ProofWork:
        if self._inner is None:
            raise ProtocolError("a request is worked on before it was read")
        return self._inner


class CircuitProver:
    """A `Prover` of several circuits on the same devices."""

    def __init__(self, circuits: Sequence[CircuitSites], workers: int | None) -> None:
        """Args: workers: Of each device, by default what is usual for it."""
        self._circuits: Mapping[str, CircuitSites] = {c.name: c for c in circuits}
        self._devices = [session.device for session in circuits[0].sessions]
        self._workers = workers

    def admit(self, request: ProofRequest) -> None:
        """As `Prover.admit`: whether its circuit is served."""
        self._served(request)

    def work(self, request: ProofRequest) -> RequestWork:
        return RequestWork(self._served(request), request)

    def devices(self) -> Sequence[DeviceReport]:
        reports = []
        for k, device in enumerate(self._devices):
            free, total = _memory(device)
            report = DeviceReport(
                ordinal=k if device.index is None else device.index,
                name=str(device),
                vram_total_bytes=total,
                vram_free_bytes=free,
            )
            reports += [report] * (self._workers or WORKERS[device.type])
        return reports

    def keys(self) -> Sequence[KeyReport]:
        reports = (circuit.report() for circuit in self._circuits.values())
        return [report for report in reports if report is not None]

    def preload(self, circuit_id: str) -> Preloaded:
        return self._circuit(circuit_id).preload()

    def evict(self, circuit_id: str) -> Evicted:
        return self._circuit(circuit_id).evict()

    def _circuit(self, name: str) -> CircuitSites:
        if name not in self._circuits:
            raise NotFoundError(f"circuit_id: {name} is not served here; {self._known}")
        return self._circuits[name]

    def _served(self, request: ProofRequest) -> CircuitSites:
        name = circuit_name_of(request.kind, request.sector_size)
        if name not in self._circuits:
            raise ConfigError(f"{name} is not served here; {self._known}")
        return self._circuits[name]

    @property
    def _known(self) -> str:
        return f"served are: {', '.join(self._circuits)}"


def _memory(device: torch.device) -> tuple[int, int]:
    """Bytes free and in all: a GPU's, or the machine's."""
    if device.type == "cuda":
        free, total = torch.cuda.mem_get_info(device)
        return int(free), int(total)
    there = machine.memory()
    return there.usable, there.total
