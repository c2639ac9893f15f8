"""The engine: jobs of a store through the scheduler's service, each to exactly one end.

submit -> on disk -> dispatcher: the scheduler, the disk, those who watch
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial

from torchzk.errors import (
    DrainingError,
    NotFoundError,
    QueueFullError,
    ResourceError,
    TorchzkError,
)
from torchzk.scheduler.service import Service
from torchzk.serving.dispatcher import Dispatcher, words
from torchzk.serving.engine import (
    Accepted,
    EngineStatus,
    Evicted,
    JobReport,
    JobState,
    Preloaded,
    ProofKind,
    ProofRequest,
)
from torchzk.serving.engine_status import device_reports, jobs_by_kind
from torchzk.serving.event_log import EventLog
from torchzk.serving.job_store import JobStore
from torchzk.serving.job_table import JobRow
from torchzk.serving.live_job import LiveJob, report_of
from torchzk.serving.metrics import Metrics
from torchzk.serving.prover import Prover
from torchzk.serving.queue_places import QueueLimits, QueuePlaces

_MOST_ENDED = 1000
"""Jobs that have ended, in a list of all jobs."""

_OF_THE_ENGINE = (QueueFullError, DrainingError)


class DurableEngine:
    """An `Engine` over a store and a service, both of which it closes when it is closed."""

    def __init__(
        self,
        store: JobStore,
        service: Service,
        prover: Prover,
        *,
        limits: QueueLimits | None = None,
        metrics: Metrics | None = None,
        log: EventLog | None = None,
        grace: float = 10.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Take up what the store has, and be ready.

        Args:
            store: Open; what it has not ended goes on.
            service: Entered.
            prover: Makes the work of requests.
            limits: How much may wait.
            metrics: What to count in.
            log: Where events go.
            grace: Seconds that the end of a job is held back while it cannot be written.
            clock: Unix time; of the store as well.

        Raises:
            StoreError: The store cannot be read.
        """
        self._store, self._service, self._prover = store, service, prover
        self._metrics, self._log = metrics or Metrics(), log or EventLog()
        self._clock = clock
        self._accepting = threading.Lock()
        self._draining = False
        self._left: int | None = None
        """Jobs for the next start, once it is closed."""
        self._started = time.monotonic()
        self._jobs = jobs = Dispatcher(
            store, service, prover, self._metrics, self._log, grace, clock
        )
        self._guard = jobs.guard
        self._places = QueuePlaces(
            limits or QueueLimits(), jobs.guard, lambda: (j.row for j in jobs.live.values())
        )
        self._resume()
        self._metrics.watch(self.status, self._oldest)

    def submit(self, request: ProofRequest) -> Accepted:
        """As `Engine.submit`.

        Raises:
            StoreError: The store is damaged or locked. And as `Engine.submit`.
        """
        try:
            return self._submit(request)
        except Exception as error:
            self._metrics.refused(error)
            if isinstance(error, ResourceError) and not isinstance(error, _OF_THE_ENGINE):
                # it may be the disk
                self._jobs.probe()
            self._log("refused", request_id=request.request_id, **words(error))
            raise

    def watch(self, job_id: str, ended: Callable[[JobReport], None]) -> Callable[[], None]:
        """As `Engine.watch`."""
        live = self._find(job_id)
        if isinstance(live, LiveJob):
            with self._guard:
                if not live.told:
                    live.watchers.append(ended)
                    return partial(self._unwatch, live, ended)
        ended(self._report(live))
        return lambda: None

    def job(self, job_id: str) -> JobReport:
        """As `Engine.job`."""
        return self._report(self._find(job_id))

    def jobs(self) -> Sequence[JobReport]:
        """As `Engine.jobs`, of those that have ended the last thousand."""
        ended = [report_of(row) for row in self._store.ended(_MOST_ENDED)]
        with self._guard:
            live = [replace(self._report(job), proof=b"") for job in self._jobs.live.values()]
        known = {report.job_id for report in live}
        every = [*(report for report in ended if report.job_id not in known), *live]
        return sorted(every, key=lambda report: report.accepted_at)

    def cancel(self, job_id: str) -> bool:
        """As `Engine.cancel`. A restart does not bring it back."""
        live = self._find(job_id)
        if isinstance(live, JobRow) or live.end is not None:
            return False
        try:
            self._store.cancel(live.row)
        except TorchzkError as error:
            # it is cancelled all the same, unless the process dies before its end
            self._jobs.on_error(error)
        running = self._jobs.cancel(live)
        self._log("cancel", job_id=job_id, running=running)
        return running

    def status(self) -> EngineStatus:
        """As `Engine.status`."""
        with self._guard:
            live = [job for job in self._jobs.live.values() if not job.told]
        totals, keys, up = self.totals(), tuple(self._prover.keys()), self._service.devices
        return EngineStatus(
            devices=device_reports(self._prover.devices(), up, live),
            keys=keys,
            pending=jobs_by_kind(live, running=False),
            running=jobs_by_kind(live, running=True),
            completed=sum(n for (_, s), n in totals.items() if s is JobState.COMPLETED),
            failed=sum(n for (_, s), n in totals.items() if s is JobState.FAILED),
            uptime_seconds=time.monotonic() - self._started,
            pinned_bytes=sum(key.size_bytes for key in keys if key.place == "pinned"),
            ready=bool(up) and not self._draining and self._jobs.sound,
        )

    def totals(self) -> dict[tuple[ProofKind, JobState], int]:
        """How many jobs have ever ended, restarts included."""
        with self._guard:
            return dict(self._jobs.totals)

    def refused(self, call: str, code: str) -> None:
        """As `Engine.refused`."""
        self._metrics.call_refused(call, code)

    def metrics(self) -> str:
        """As `Engine.metrics`."""
        return self._metrics.text()

    def preload(self, circuit_id: str) -> Preloaded:
        """As `Engine.preload`."""
        loaded = self._prover.preload(circuit_id)
        if not loaded.already_loaded:
            self._metrics.key_loaded(loaded.seconds)
        self._log("preload", circuit=circuit_id, seconds=loaded.seconds)
        return loaded

    def evict(self, circuit_id: str) -> Evicted:
        """As `Engine.evict`."""
        evicted = self._prover.evict(circuit_id)
        self._log("evict", circuit=circuit_id, freed_bytes=evicted.freed_bytes)
        return evicted

    def drain(self) -> None:
        """As `Engine.drain`."""
        with self._accepting:
            before, self._draining = self._draining, True
        if not before:
            self._log("drain")

    def close(self, patience: float) -> int:
        """As `Engine.close`; service and store are closed then."""
        if self._left is not None:
            return self._left
        self.drain()
        unwritten = self._jobs.close(patience)
        try:
            self._store.rest()
            left = len(self._store.unfinished())
        except TorchzkError as error:
            self._jobs.on_error(error)
            left = len(self._jobs.live)
        self._store.close()
        self._left = left
        self._log("stopped", jobs_left=left, ends_not_written=unwritten)
        return left

    def _submit(self, request: ProofRequest) -> Accepted:
        self._check_open()
        digest = request.digest()
        there = self._store.same(request.request_id, digest)
        if there is not None:
            return self._joined(there)
        self._prover.admit(request)
        with (
            self._places.place(request),
            self._store.write_payload(request, digest),
            # one after the other: of two that are the same the second finds the first
            self._accepting,
        ):
            self._check_open()
            row, is_there = self._store.accept(request, digest)
            if not is_there:
                live = LiveJob(row)
                self._jobs.add(live)
        if is_there:
            return self._joined(row)
        self._metrics.accepted(row.kind, row.priority)
        self._log("accepted", job_id=row.job_id, kind=row.kind.value, priority=row.priority.name)
        accepted = Accepted(row.job_id, self._position(live), joined=False)
        self._jobs.feed()
        return accepted

    def _check_open(self) -> None:
        if self._draining:
            raise DrainingError("the service takes no more jobs, it is about to stop; ask again")
        if not self._service.devices:
            raise DrainingError("every device is set aside; look at the log, and start it again")

    def _joined(self, row: JobRow) -> Accepted:
        self._metrics.joined(row.kind)
        self._log("joined", job_id=row.job_id, state=row.state.value)
        with self._guard:
            live = self._jobs.live.get(row.job_id)
        return Accepted(row.job_id, 0 if live is None else self._position(live), joined=True)

    def _resume(self) -> None:
        """Take up what an earlier process has left, in the order in which it was accepted."""
        for row in self._store.unfinished():
            pieces = self._store.pieces(row)
            self._jobs.add(
                LiveJob(row, attempts=row.attempts, cancelled=row.cancelled, proven=pieces)
            )
            self._metrics.resumed(row.kind, len(pieces))
            self._log("resumed", job_id=row.job_id, partitions_proven=len(pieces))
        self._jobs.feed()

    def _find(self, job_id: str) -> LiveJob | JobRow:
        """A job that has not ended, or else its row; raises `NotFoundError`."""
        while True:
            with self._guard:
                live = self._jobs.live.get(job_id)
            if live is not None:
                return live
            row = self._store.find(job_id)
            if row is None:
                raise NotFoundError(f"there is no job {ascii(job_id[:100])}; it may be forgotten")
            if row.state.ended:
                return row
            # it is being accepted just now, or has just ended
            with self._accepting:
                pass

    def _unwatch(self, live: LiveJob, ended: Callable[[JobReport], None]) -> None:
        with self._guard, suppress(ValueError):
            live.watchers.remove(ended)

    def _report(self, job: LiveJob | JobRow) -> JobReport:
        if isinstance(job, JobRow):
            return report_of(job, proof=self._store.proof(job.job_id))
        with self._guard:
            if job.told:
                return report_of(job.row, job.end, live=job)
            seconds = job.seconds(self._clock(), time.monotonic())
            return replace(report_of(job.row, live=job), state=job.state, seconds=seconds)

    def _position(self, live: LiveJob) -> int:
        """How many jobs that wait are before it, or 0 if it does not wait."""
        with self._guard:
            if live.running or live.told:
                return 0
            mine = self._jobs.order(live)
            waiting = (job for job in self._jobs.live.values() if not job.running and not job.told)
            return sum(self._jobs.order(job) < mine for job in waiting)

    def _oldest(self) -> float:
        with self._guard:
            waiting = [j.row.accepted_at for j in self._jobs.live.values() if not j.running]
        return max(self._clock() - min(waiting), 0.0) if waiting else 0.0
