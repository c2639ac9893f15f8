"""Jobs between their acceptance and their end: handed to the scheduler, written down, told.

    backlog -> the service -> recorder: on disk -> those who watch are told

A job that the service has no place for waits in the backlog. Nobody waits or writes with the guard
held, and the service's monitor is never held when the guard is asked for.
"""

from __future__ import annotations

import threading
import time
from bisect import insort
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

from torchzk.errors import (
    CancelledError,
    DeviceLostError,
    ExpiredError,
    ProofError,
    ProtocolError,
    QueueFullError,
    ResourceError,
    TorchzkError,
)
from torchzk.scheduler import work
from torchzk.scheduler.job_queue import HEAD_START
from torchzk.scheduler.service import Service
from torchzk.serving.engine import JobState
from torchzk.serving.event_log import EventLog
from torchzk.serving.evidence import keep_evidence
from torchzk.serving.job_store import JobStore
from torchzk.serving.job_table import JobEnd, JobRow
from torchzk.serving.kept_work import Fault, KeptWork
from torchzk.serving.live_job import LiveJob, report_of
from torchzk.serving.metrics import Metrics
from torchzk.serving.prover import Prover
from torchzk.serving.recorder import Recorder

_MOST_DEATHS = 5
"""A job that so many processes died at is not begun again: others are to have their turn."""
_PROBE = 5.0
"""Seconds between two looks at whether the disk can be written, while it can."""
_SWEEP = 60.0
"""Seconds between two looks at what is to be forgotten."""
_QUIET = 60.0
"""Seconds for which a fault that comes again and again is counted alone, and not logged."""
_STATES = {
    work.JobState.DONE: JobState.COMPLETED,
    work.JobState.FAILED: JobState.FAILED,
    work.JobState.CANCELLED: JobState.CANCELLED,
    work.JobState.EXPIRED: JobState.EXPIRED,
}


@dataclass(frozen=True)
class _Ended:
    """How the scheduler, or somebody before it, was done with a job."""

    live: LiveJob
    error: BaseException | None
    proof: bytes = b""


class Dispatcher:
    """Every job that has not ended, and the threads' common guard."""

    def __init__(
        self,
        store: JobStore,
        service: Service,
        prover: Prover,
        metrics: Metrics,
        log: EventLog,
        grace: float,
        clock: Callable[[], float],
    ) -> None:
        """As `DurableEngine`."""
        self._store, self._service, self._prover = store, service, prover
        self._metrics, self._log, self._clock = metrics, log, clock
        self.guard = threading.RLock()
        self.live: dict[str, LiveJob] = {}
        """By id; changed with the guard held."""
        self.totals = Counter(store.totals())
        self._backlog: dict[work.Priority, list[LiveJob]] = {p: [] for p in work.Priority}
        self._closing = False
        self._explaining: list[threading.Thread] = []
        self._sound = True
        self._probing = threading.Lock()
        self._swept = self._probed = time.monotonic()
        self._said: tuple[dict[str, str], float] = {}, 0.0
        self._recorder = Recorder[_Ended](
            self._take, self._write, self._tell, self._tick, self.on_error, grace=grace
        )
        self._recorder.start()

    @property
    def sound(self) -> bool:
        """Whether the store could be written when that was last tried, and nothing is left to."""
        return self._sound and not self._recorder.behind

    def probe(self) -> None:
        """See whether the store can be written."""
        # one thread at a time: each change is told once
        with self._probing:
            self._probed = time.monotonic()
            try:
                self._store.probe()
            except TorchzkError as error:
                if self._sound:
                    # once, and not every half a second
                    self._log("store unusable", **words(error))
                self._sound = False
                return
            if not self._sound:
                self._log("store usable")
            self._sound = True

    def add(self, live: LiveJob) -> None:
        """Take a job in, which is on the disk; `feed` hands it on."""
        with self.guard:
            self.live[live.row.job_id] = live
            self._wait(live)

    def cancel(self, live: LiveJob) -> bool:
        """Cancel a job that is not told yet; whether it was running."""
        with self.guard:
            live.cancelled, running, job = True, live.running, live.job
            waiting = self._backlog[live.priority]
            in_backlog = live in waiting
            if in_backlog:
                waiting.remove(live)
        if in_backlog:
            self._recorder.put(_Ended(live, CancelledError("the job was cancelled")))
        elif job is not None:
            job.cancel()
        return running

    def close(self, patience: float) -> int:
        """Wait for what runs, stop it then, and close the service; nothing is handed on any more.

        Returns:
            Ends of jobs that are not written.
        """
        with self.guard:
            self._closing = True
            for live in self.live.values():
                live.left = not live.running
            waiting = [live.job for live in self.live.values() if live.left and live.job]
        for job in waiting:
            job.cancel()
        end = time.monotonic() + patience
        while self._at_work() and time.monotonic() < end:
            time.sleep(0.01)
        with self.guard:
            for live in self.live.values():
                live.left = True
        self._service.close(cancel=True)
        for thread in self._explaining:
            thread.join(max(end - time.monotonic(), 1.0))
        return self._recorder.close()

    def _at_work(self) -> bool:
        with self.guard:
            return any(not live.left and live.end is None for live in self.live.values())

    def _wait(self, live: LiveJob) -> None:
        """Put a job into the backlog. The guard is held."""
        insort(self._backlog[live.priority], live, key=lambda job: job.rank)

    def feed(self) -> None:
        """Hand the service what it has places for."""
        with self.guard:
            for waiting in self._backlog.values():
                while waiting and not self._closing and self._hand_over(waiting[0]):
                    waiting.pop(0)

    def _hand_over(self, live: LiveJob) -> bool:
        """Give a job to the service, or end it; False where there is no place. Guard held."""
        row, now = live.row, self._clock()
        left = None if row.deadline is None else row.deadline - now
        if row.begun >= _MOST_DEATHS:
            died = ResourceError(
                f"the service died {row.begun} times while this job was in work; look at its log "
                "for what else may be to blame before you submit it again"
            )
            self._recorder.put(_Ended(live, died))
            return True
        if live.cancelled:
            self._recorder.put(_Ended(live, CancelledError("the job was cancelled")))
            return True
        if left is not None and left <= 0:
            late = ExpiredError(f"the job's deadline passed {-left:.1f} s ago, while it waited")
            self._recorder.put(_Ended(live, late))
            return True
        live.work = KeptWork(
            partial(self._make, row),
            partial(self._keep, row),
            partial(self._on_fault, live),
            live.proven,
            partial(self._begin, row),
        )
        try:
            live.job = self._service.submit(
                ascii(row.job_id)[1:-1][:100],
                live.work,
                live.priority,
                seconds=left,
                age=now - live.rank,
                proven=live.proven,
                on_end=lambda job: self._recorder.put(_ended(live, job)),
            )
        except (QueueFullError, ProtocolError):
            live.work = None
            return False
        except DeviceLostError as error:
            self._recorder.put(_Ended(live, error))
        return True

    def _make(self, row: JobRow) -> work.JobWork:
        request = self._store.request(row)
        return self._prover.work(replace(request, request_id=row.request_id, priority=row.priority))

    def _begin(self, row: JobRow) -> None:
        try:
            self._store.begin(row)
        except TorchzkError as error:
            self.on_error(error)

    def _keep(self, row: JobRow, index: int, piece: bytes, device: str) -> None:
        self._metrics.partition(row.kind, device)
        try:
            self._store.put_piece(row, index, piece)
        except TorchzkError as error:
            # it is proved, and only to be proved again if the process dies before the job's end
            self._metrics.store_error("piece")
            self._log("piece not kept", job_id=row.job_id, partition=index, **words(error))

    def _on_fault(self, live: LiveJob, fault: Fault) -> None:
        """A proof does not hold: keep what there is to see. Called by a thread of the service."""
        row = live.row
        self._metrics.fault(row.kind)
        live.suspects = frozenset(filter(None, fault.devices))
        facts = {
            "job_id": row.job_id,
            "kind": row.kind.value,
            "sector_size": row.sector_size,
            "digest": row.digest.hex(),
            "attempt": live.attempts + 1,
        }
        try:
            evidence = keep_evidence(
                self._store.folder / "evidence",
                fault,
                facts,
                partial(self._store.save_payload, row),
            )
            live.suspects = evidence.suspects
            if evidence.explain is not None:
                # others' proofs are not to wait for it
                self._explain(evidence.explain)
            where = str(evidence.folder)
        except Exception as error:
            self.on_error(error)
            where = "not kept"
        self._log(
            "proof does not hold",
            job_id=row.job_id,
            attempt=live.attempts + 1,
            devices=", ".join(sorted(live.suspects)),
            evidence=where,
        )

    def _explain(self, explain: Callable[[], None]) -> None:
        def run() -> None:
            try:
                explain()
            except Exception as error:
                self.on_error(error)

        thread = threading.Thread(target=run, name="evidence", daemon=True)
        with self.guard:
            self._explaining = [t for t in self._explaining if t.is_alive()] + [thread]
        thread.start()

    def _take(self, ended: _Ended) -> bool:
        """What becomes of a job that the service is done with. In the recorder's thread."""
        live, error = ended.live, ended.error
        if live.work is not None:
            live.work.release()
        if isinstance(error, ProofError):
            if not live.attempts:
                self._try_again(live)
                return False
            self._set_aside(live)
        stopped = isinstance(error, CancelledError) and not live.cancelled
        if live.left and stopped:
            return False
        live.end = self._end_of(ended)
        return True

    def _set_aside(self, live: LiveJob) -> None:
        """A second proof of one job did not hold: who made it makes no more."""
        for device in sorted(live.suspects & self._service.devices):
            self._metrics.set_aside(device)
            self._log("device set aside", device=device, job_id=live.row.job_id)
            self._service.set_aside(
                device, DeviceLostError(f"{device}: its proofs did not hold twice")
            )

    def _try_again(self, live: LiveJob) -> None:
        self._metrics.retried(live.row.kind)
        with suppress(TorchzkError):
            self._store.try_again(live.row)
        with self.guard:
            live.attempts += 1
            live.job = live.work = None
            live.proven, live.left = {}, self._closing
            self._wait(live)
        self.feed()

    def _end_of(self, ended: _Ended) -> JobEnd:
        live, error, now = ended.live, ended.error, self._clock()
        return JobEnd(
            job_id=live.row.job_id,
            state=_STATES[work.state_after(error)],
            ended_at=now,
            seconds=live.seconds(now, time.monotonic()),
            proof=ended.proof,
            error_type="" if error is None else type(error).__name__,
            error_message="" if error is None else str(error)[:2000],
        )

    def _write(self, items: list[_Ended]) -> None:
        ends = [(item.live.row, item.live.end) for item in items if item.live.end is not None]
        self._store.end(*ends)
        with self.guard:
            for row, end in ends:
                self.live.pop(row.job_id, None)
                self.totals[row.kind, end.state] += 1

    def _tell(self, ended: _Ended) -> None:
        live = ended.live
        with self.guard:
            live.told = True
            watchers, live.watchers = live.watchers, []
            live.job = None
        report = report_of(live.row, live.end, live=live)
        live.work = None
        self._metrics.ended(report)
        self._log(
            "ended",
            job_id=report.job_id,
            state=report.state.value,
            seconds=round(report.seconds.total, 3),
            error=report.error_type,
            message=report.error_message,
        )
        self.feed()
        for watcher in watchers:
            # what one of them raises is not to keep it from the others
            try:
                watcher(report)
            except Exception as error:
                self.on_error(error)

    def _tick(self) -> None:
        self.feed()
        if not self._sound or time.monotonic() - self._probed > _PROBE:
            self.probe()
        if time.monotonic() - self._swept > _SWEEP:
            self._swept = time.monotonic()
            self._store.forget_old()

    def on_error(self, error: Exception) -> None:
        """Count and log a fault that ends nothing."""
        self._metrics.store_error("record")
        said, now = words(error), time.monotonic()
        before, then = self._said
        if said != before or now - then > _QUIET:
            # a disk that is full for a day is not to fill the one of the log
            self._said = said, now
            self._log("fault", **said)

    def order(self, live: LiveJob) -> tuple[float, int]:
        """Lower is served sooner."""
        return live.rank - HEAD_START[live.priority], live.row.number


def _ended(live: LiveJob, job: work.Job) -> _Ended:
    return _Ended(live, job.error, b"" if job.error is not None else job.result(0))


def words(error: BaseException) -> dict[str, str]:
    """An error's class and message, for the log."""
    return {"error": type(error).__name__, "message": str(error)[:2000]}
