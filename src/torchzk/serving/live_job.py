"""A job that has not ended, as the engine has it in memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from torchzk.scheduler.work import Job
from torchzk.scheduler.work import Priority as Class
from torchzk.serving.engine import JobReport, JobSeconds, JobState, Priority
from torchzk.serving.job_table import JobEnd, JobRow
from torchzk.serving.kept_work import KeptWork

CLASSES = {
    Priority.CRITICAL: Class.WINNING,
    Priority.HIGH: Class.WINDOW,
    Priority.NORMAL: Class.REST,
    Priority.LOW: Class.REST,
}
"""The scheduler's class of each of a client's."""

LOW_PENALTY = 600.0
"""Seconds by which a job of low priority counts as submitted later, within its class."""


@dataclass(eq=False)
class LiveJob:
    """A job between its acceptance and its end. The engine's guard is held to change it."""

    row: JobRow
    watchers: list[Callable[[JobReport], None]] = field(default_factory=list)
    work: KeptWork | None = None
    job: Job | None = None
    """The scheduler's; None as long as it waits for a place there."""
    attempts: int = 0
    """Proofs that did not hold."""
    proven: Mapping[int, bytes] = field(default_factory=dict)
    """Pieces of an earlier process."""
    cancelled: bool = False
    suspects: frozenset[str] = frozenset()
    """Devices that made what did not hold at the last attempt."""
    left: bool = False
    """It stops for the process's end, and goes on with the next one."""
    end: JobEnd | None = None
    """What it ended with."""
    told: bool = False
    """Those who wait have heard of it."""

    @property
    def priority(self) -> Class:
        return CLASSES[self.row.priority]

    @property
    def rank(self) -> float:
        """When it counts as accepted within its class, in Unix time."""
        late = LOW_PENALTY if self.row.priority is Priority.LOW else 0.0
        return self.row.accepted_at + late

    @property
    def running(self) -> bool:
        return self.work is not None and self.work.running

    @property
    def state(self) -> JobState:
        if self.end is not None and self.told:
            return self.end.state
        return JobState.RUNNING if self.running else JobState.QUEUED

    def seconds(self, now: float, ticks: float) -> JobSeconds:
        """What it took so far.

        Args:
            now: Unix time.
            ticks: The same moment by the work's clock.
        """
        total = max(now - self.row.accepted_at, 0.0)
        begun = None if self.work is None else self.work.begun
        waited = total if begun is None else max(total - (ticks - begun), 0.0)
        if self.work is None:
            return JobSeconds(queue_wait=waited, total=total)
        return self.work.seconds(waited, total)


def report_of(
    row: JobRow, end: JobEnd | None = None, proof: bytes = b"", live: LiveJob | None = None
) -> JobReport:
    """A job's report from its row, or from what it ended with where that is not in the row yet."""
    state, seconds = (row.state, row.seconds) if end is None else (end.state, end.seconds)
    return JobReport(
        job_id=row.job_id,
        request_id=row.request_id,
        kind=row.kind,
        sector_size=row.sector_size,
        priority=row.priority,
        state=state,
        accepted_at=row.accepted_at,
        seconds=seconds,
        proof=proof if end is None else end.proof,
        error_type=row.error_type if end is None else end.error_type,
        error_message=row.error_message if end is None else end.error_message,
        partitions=() if live is None or live.work is None else live.work.partitions,
    )
