"""An engine that proves nothing, and does what the first vanilla proof tells it."""

from __future__ import annotations

import hashlib
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from torchzk.errors import (
    ConfigError,
    DrainingError,
    InputError,
    KeyFileError,
    NotFoundError,
    QueueFullError,
    ResourceError,
)
from torchzk.serving.engine import (
    Accepted,
    DeviceReport,
    EngineStatus,
    Evicted,
    JobReport,
    JobSeconds,
    JobState,
    KeyReport,
    Preloaded,
    ProofKind,
    ProofRequest,
)

SECONDS = JobSeconds(queue_wait=0.001, key_load=0.002, synthesis=0.003, device=0.004, total=0.010)
REFUSALS = {
    b"input": InputError("vanilla_proof: no JSON"),
    b"config": ConfigError("porep-64GiB is not served here"),
    b"full": QueueFullError("1024 jobs wait, which are the most"),
    b"large": ResourceError("needs 90 GiB, the limit is 80 GiB"),
    b"key": KeyFileError("porep-2KiB: the key is damaged"),
    b"fault": ZeroDivisionError("secret inside"),
}
"""What `submit` raises for payloads that are `refuse WORD`."""


def proof_of(digest: bytes) -> bytes:
    return (digest * 6)[:192]


@dataclass
class _Kept:
    digest: bytes
    report: JobReport
    watchers: list[Callable[[JobReport], None]]


class FakeEngine:
    """Payloads: `prove`, `after SECONDS`, `when FILE` (is there), `meet N` (when as many such jobs
    run), `hold` (runs on and on), `queue` (waits on and on), `fail`, `expire`, `refuse WORD`;
    whatever follows a newline is not looked at.
    """

    def __init__(self) -> None:
        self._jobs: dict[str, _Kept] = {}
        self._guard = threading.RLock()
        self._began = time.monotonic()
        self._keys: set[str] = set()
        self._meeting: list[str] = []
        self.draining = False
        self.ready = True
        self.digests: Counter[str] = Counter()
        """How often each job was executed, by its id."""

    def submit(self, request: ProofRequest) -> Accepted:
        with self._guard:
            if self.draining:
                raise DrainingError("the service is about to stop")
            word = request.vanilla_proofs[0].partition(b"\n")[0]
            if word.startswith(b"refuse "):
                raise REFUSALS[word.removeprefix(b"refuse ")]
            wanted = request.request_id or f"job-{len(self._jobs)}"
            job_id, tries = wanted, 1
            while job_id in self._jobs:
                if self._jobs[job_id].digest == request.digest():
                    return Accepted(job_id, 0, joined=True)
                tries += 1
                job_id = f"{wanted}#{tries}"
            report = JobReport(
                job_id=job_id,
                request_id=request.request_id,
                kind=request.kind,
                sector_size=request.sector_size,
                priority=request.priority,
                state=JobState.QUEUED if word == b"queue" else JobState.RUNNING,
                accepted_at=time.time(),
                seconds=SECONDS,
            )
            before = sum(not k.report.state.ended for k in self._jobs.values())
            self._jobs[job_id] = _Kept(request.digest(), report, [])
            self.digests[job_id] += 1
            self._begin(job_id, word)
            return Accepted(job_id, before, joined=False)

    def _begin(self, job_id: str, word: bytes) -> None:
        if word == b"prove":
            self._prove(job_id)
        elif word.startswith(b"after "):
            timer = threading.Timer(float(word.split()[1]), self._prove, [job_id])
            timer.daemon = True
            timer.start()
        elif word.startswith(b"when "):
            waits = threading.Thread(target=self._prove_when, args=(job_id, word[5:].decode()))
            waits.daemon = True
            waits.start()
        elif word.startswith(b"meet "):
            self._meeting.append(job_id)
            if len(self._meeting) == int(word[5:]):
                while self._meeting:
                    self._prove(self._meeting.pop())
        elif word == b"fail":
            message = "sectors[0]: comm_c is wrong"
            self._end(job_id, state=JobState.FAILED, error_type="InputError", error_message=message)
        elif word == b"expire":
            message = "the deadline passed"
            self._end(
                job_id, state=JobState.EXPIRED, error_type="ExpiredError", error_message=message
            )

    def _prove_when(self, job_id: str, path: str) -> None:
        while not Path(path).exists():
            time.sleep(0.005)
        self._prove(job_id)

    def _prove(self, job_id: str) -> None:
        with self._guard:
            proof = proof_of(self._jobs[job_id].digest)
            self._end(job_id, state=JobState.COMPLETED, proof=proof)

    def _end(self, job_id: str, **changes: object) -> None:
        with self._guard:
            kept = self._jobs[job_id]
            if kept.report.state.ended:
                return
            kept.report = replace(kept.report, **changes)  # type: ignore[arg-type]
            for watcher in tuple(kept.watchers):
                watcher(kept.report)

    def watch(self, job_id: str, ended: Callable[[JobReport], None]) -> Callable[[], None]:
        with self._guard:
            kept = self._kept(job_id)
            if kept.report.state.ended:
                ended(kept.report)
            kept.watchers.append(ended)

        def unwatch() -> None:
            with self._guard:
                kept.watchers.remove(ended)

        return unwatch

    def _kept(self, job_id: str) -> _Kept:
        if job_id not in self._jobs:
            raise NotFoundError(f"there is no job {ascii(job_id[:40])}")
        return self._jobs[job_id]

    def job(self, job_id: str) -> JobReport:
        with self._guard:
            return self._kept(job_id).report

    def jobs(self) -> list[JobReport]:
        with self._guard:
            return [replace(k.report, proof=b"") for k in self._jobs.values()]

    def cancel(self, job_id: str) -> bool:
        with self._guard:
            running = self._kept(job_id).report.state is JobState.RUNNING
            message = f"{job_id} was cancelled"
            self._end(
                job_id,
                state=JobState.CANCELLED,
                error_type="CancelledError",
                error_message=message,
            )
            return running

    def status(self) -> EngineStatus:
        with self._guard:
            states = Counter((k.report.kind, k.report.state) for k in self._jobs.values())
            device = DeviceReport(
                ordinal=0,
                name="none",
                vram_total_bytes=2,
                vram_free_bytes=1,
                job_id="x",
                kind=ProofKind.WINDOW,
            )
            return EngineStatus(
                devices=(device, replace(device, ordinal=1, job_id="", kind=None, set_aside=True)),
                keys=tuple(
                    KeyReport(circuit_id=name, place="pinned", size_bytes=7, users=0)
                    for name in sorted(self._keys)
                ),
                pending={k: states[k, JobState.QUEUED] for k in ProofKind},
                running={k: states[k, JobState.RUNNING] for k in ProofKind},
                completed=sum(n for (_, s), n in states.items() if s is JobState.COMPLETED),
                failed=sum(n for (_, s), n in states.items() if s is JobState.FAILED),
                uptime_seconds=time.monotonic() - self._began + 1,
                pinned_bytes=7 * len(self._keys),
                pinned_limit_bytes=100,
                ready=self.ready,
            )

    def refused(self, call: str, code: str) -> None:
        print(f"refused {call}: {code}", file=sys.stderr)

    def metrics(self) -> str:
        with self._guard:
            watchers = sum(len(k.watchers) for k in self._jobs.values())
            return f"torchzk_jobs_accepted_total {len(self._jobs)}\nwatchers {watchers}\n"

    def preload(self, circuit_id: str) -> Preloaded:
        with self._guard:
            if circuit_id.endswith("-64GiB"):
                raise ResourceError(f"{circuit_id}: needs 90 GiB, the limit is 80 GiB")
            loaded = circuit_id in self._keys
            self._keys.add(circuit_id)
            return Preloaded(loaded, 0.0 if loaded else 1.5)

    def evict(self, circuit_id: str) -> Evicted:
        with self._guard:
            loaded = circuit_id in self._keys
            self._keys.discard(circuit_id)
            return Evicted(loaded, 7 if loaded else 0)

    def drain(self) -> None:
        self.draining = True

    def close(self, patience: float) -> int:
        until = time.monotonic() + patience
        while time.monotonic() < until:
            with self._guard:
                if not any(k.report.state is JobState.RUNNING for k in self._jobs.values()):
                    break
            time.sleep(0.01)
        with self._guard:
            return sum(not k.report.state.ended for k in self._jobs.values())


def hash_of(text: str) -> bytes:
    """32 bytes that look like a commitment."""
    return hashlib.sha256(text.encode()).digest()
