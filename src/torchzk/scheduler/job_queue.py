"""Jobs in the order they are to be worked on: by class, then by age, and age beats class in time.

A job's rank is the moment it was submitted less its class's head start, so two jobs keep their
order for ever: a job of the lowest class is passed only by those submitted within the largest head
start after it, and nothing starves.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType

from torchzk.errors import ProtocolError, QueueFullError
from torchzk.scheduler.work import Job, Priority

HEAD_START: Mapping[Priority, float] = MappingProxyType(
    {Priority.WINNING: 1200.0, Priority.WINDOW: 600.0, Priority.REST: 0.0}
)
"""Seconds by which a class is put before a job of the lowest class."""


def _any(_: Priority) -> bool:
    return True


class JobQueue:
    """A place where jobs wait, bounded by class: so the lowest never keeps the highest out.

    Places are reserved for jobs that are on their way. Not locked: the service's monitor is held.
    """

    def __init__(
        self, name: str, bound: int, head_start: Mapping[Priority, float] = HEAD_START
    ) -> None:
        """Args: bound: Jobs of each class, those with a reserved place included."""
        if bound < 1:
            raise ProtocolError(f"the queue of {name} has {bound} places, it needs one at least")
        self.name, self._bound, self._head_start = name, bound, head_start
        self._waiting: dict[Priority, list[Job]] = {p: [] for p in Priority}
        self._reserved: set[Job] = set()

    def rank(self, job: Job) -> tuple[float, Priority]:
        """Lower is sooner: a moment of the service's clock, and of two at once the higher class."""
        return job.submitted - self._head_start[job.priority], job.priority

    def room(self, priority: Priority) -> bool:
        """Whether there is a place for one more of that class."""
        reserved = sum(job.priority is priority for job in self._reserved)
        return len(self._waiting[priority]) + reserved < self._bound

    def reserve(self, job: Job) -> None:
        """Keep a place for a job.

        Raises:
            QueueFullError: There is none.
        """
        if not self.room(job.priority):
            raise QueueFullError(
                f"{self.name}: {self._bound} jobs of class {job.priority.name.lower()} wait "
                "already; submit again when some of them are through"
            )
        self._reserved.add(job)

    def put(self, job: Job) -> None:
        """Have a job wait, in the place reserved for it.

        Raises:
            ProtocolError: It has none.
        """
        if job not in self._reserved:
            raise ProtocolError(f"{job.name} has no place among {self.name}")
        self._reserved.remove(job)
        insort(self._waiting[job.priority], job, key=self.rank)

    def take(self, accept: Callable[[Priority], bool] = _any) -> Job | None:
        """The first job of those classes that are accepted, out of the queue; None without one."""
        heads = [jobs[0] for p, jobs in self._waiting.items() if jobs and accept(p)]
        if not heads:
            return None
        job = min(heads, key=self.rank)
        self._waiting[job.priority].pop(0)
        return job

    def give_up(self, job: Job) -> None:
        """Let go of a job's reserved place, if it has one."""
        self._reserved.discard(job)

    def remove(self, job: Job) -> bool:
        """Take a job out that waits here; whether it did."""
        jobs = self._waiting[job.priority]
        if job not in jobs:
            return False
        jobs.remove(job)
        return True

    def __len__(self) -> int:
        return sum(map(len, self._waiting.values()))

    def __iter__(self) -> Iterator[Job]:
        """Those who wait, in order."""
        return iter(sorted((j for jobs in self._waiting.values() for j in jobs), key=self.rank))
