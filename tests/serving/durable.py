"""Engines over fake devices, whose jobs do what their payload says."""

from __future__ import annotations

import io
import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

from fake_devices import FakeDevice, FakeJob, Referee, Script, setups
from torchzk.errors import ConfigError, ProofError
from torchzk.scheduler.service import Limits, Service
from torchzk.scheduler.work import Job
from torchzk.serving.durable_engine import DurableEngine
from torchzk.serving.engine import (
    DeviceReport,
    Evicted,
    JobReport,
    KeyReport,
    Preloaded,
    Priority,
    ProofKind,
    ProofRequest,
)
from torchzk.serving.event_log import EventLog
from torchzk.serving.job_store import JobStore
from torchzk.serving.queue_places import QueueLimits


def request(
    request_id: str = "a",
    kind: ProofKind = ProofKind.WINDOW,
    priority: Priority = Priority.NORMAL,
    seconds: float | None = None,
    **script: Any,
) -> ProofRequest:
    """A request whose payload is a script; other words in it make other payloads."""
    return ProofRequest(
        request_id=request_id,
        kind=kind,
        sector_size=2048,
        registered_proof=None,
        priority=priority,
        vanilla_proofs=(json.dumps(script, sort_keys=True).encode(),),
        seconds=seconds,
    )


class FakeProver:
    """Work by script: `n` partitions of `planned` bytes, `takes` seconds by step, `breaks` at a
    step, `bad` proofs."""

    def __init__(self, devices: Sequence[FakeDevice]) -> None:
        self.devices_there = devices
        self.referee = Referee()
        self.jobs: list[tuple[ProofRequest, FakeJob]] = []
        self.hooks: Mapping[str, Any] = {}
        self.guard = threading.Lock()

    def admit(self, request: ProofRequest) -> None:
        if request.sector_size != 2048:
            raise ConfigError(f"{request.sector_size} is not served")

    def work(self, request: ProofRequest) -> FakeJob:
        script = json.loads(request.vanilla_proofs[0])
        given = Script(
            script.get("n", 1),
            planned=script.get("planned", 10),
            seconds=script.get("takes", {}),
            breaks=script.get("breaks"),
            hooks=self.hooks if script.get("hooked") else {},
        )
        with self.guard:
            tries = sum(r.digest() == request.digest() for r, _ in self.jobs)
            job = UnprovenJob if tries < script.get("bad", 0) else FakeJob
            made = job(request.request_id, given, self.referee)
            self.jobs.append((request, made))
        return made

    def devices(self) -> Sequence[DeviceReport]:
        return [
            DeviceReport(ordinal=k, name=d.name, vram_total_bytes=d.capacity, vram_free_bytes=1)
            for k, d in enumerate(self.devices_there)
            for _ in range(2)
        ]

    def keys(self) -> Sequence[KeyReport]:
        return [KeyReport(circuit_id="window-2KiB", place="pinned", size_bytes=7, users=1)]

    def preload(self, circuit_id: str) -> Preloaded:
        return Preloaded(False, 0.25)

    def evict(self, circuit_id: str) -> Evicted:
        return Evicted(True, 7)


class UnprovenJob(FakeJob):
    """One whose proof does not hold, because of its last partition."""

    def finish(self, pieces: Sequence[bytes]) -> bytes:
        raise ProofError(f"{self.name}: the proof does not hold")

    def faulty(self, pieces: Sequence[bytes]) -> Sequence[int]:
        return [len(pieces) - 1]

    def explain(self, partitions: Sequence[int], folder: Path) -> None:
        (folder / "stages.txt").write_text(f"msm of A differs in {partitions}")


class Rig:
    """An engine and what it is made of."""

    def __init__(
        self,
        folder: Path,
        *devices: FakeDevice,
        limits: QueueLimits | None = None,
        places: Limits | None = None,
        workers: int = 2,
        patience: float = 0.2,
        grace: float = 10.0,
        hooks: Mapping[str, Any] = MappingProxyType({}),
        prover: Callable[[Sequence[FakeDevice]], FakeProver] = FakeProver,
    ) -> None:
        self.devices = devices or (FakeDevice("fake:0"),)
        self.prover = prover(self.devices)
        # before the engine takes up what an earlier one has left
        self.prover.hooks = hooks
        self.store = JobStore(folder, patience=patience)
        self.service = Service(setups(*self.devices, workers=workers), limits=places).__enter__()
        self.lines = io.StringIO()
        self.engine = DurableEngine(
            self.store,
            self.service,
            self.prover,
            limits=limits,
            log=EventLog(self.lines),
            grace=grace,
        )

    def end(self, job_id: str, timeout: float = 120.0) -> JobReport:
        """The end of a job, waited for."""
        got: list[JobReport] = []
        over = threading.Event()

        def ended(report: JobReport) -> None:
            got.append(report)
            over.set()

        unwatch = self.engine.watch(job_id, ended)
        assert over.wait(timeout), f"{job_id} does not end: {self.engine.job(job_id)}"
        unwatch()
        assert len(got) == 1
        return got[0]

    def run(self, wanted: ProofRequest) -> JobReport:
        return self.end(self.engine.submit(wanted).job_id)

    def events(self, name: str) -> list[dict[str, Any]]:
        lines = map(json.loads, self.lines.getvalue().splitlines())
        return [line for line in lines if line["event"] == name]

    def metric(self, name: str) -> float:
        """The value of a metric's line, labels included."""
        lines = [x for x in self.engine.metrics().splitlines() if x.startswith(f"{name} ")]
        assert len(lines) == 1, (name, lines)
        return float(lines[0].rpartition(" ")[2])


def at_work(made: Rig, job_id: str) -> Job:
    """The scheduler's job behind one of the engine's."""
    job = made.engine._jobs.live[job_id].job
    assert job is not None
    return job


@contextmanager
def rig(folder: Path, *devices: FakeDevice, **given: Any) -> Iterator[Rig]:
    """A rig that is closed, and whose jobs kept all rules."""
    made = Rig(folder, *devices, **given)
    try:
        yield made
    finally:
        made.engine.close(0.0)
    assert made.prover.referee.faults == [] and made.events("fault") == []
