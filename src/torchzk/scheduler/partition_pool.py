"""The partitions of all jobs that are being proved, and the workers of all devices who take them.

Workers take the first partition of the most urgent job; among jobs of one class those first that
are at home on their device, where the key is, and then what belongs to others. When a device is set
aside, the partitions it was at are done by others, and what it still delivers is ignored.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from torchzk.errors import DeviceLostError
from torchzk.scheduler.assembler import Assembler
from torchzk.scheduler.job_queue import JobQueue
from torchzk.scheduler.work import Job, Priority

_MOST_LOST_DEVICES = 2
"""A job at whose partitions so many devices failed is not tried on another one."""


@dataclass(frozen=True, eq=False)
class Claim:
    """A partition that a worker of a device works on."""

    job: Job
    index: int
    device: str


class _Entry:
    def __init__(self, job: Job) -> None:
        self.job = job
        self.parts = Assembler(job.n_partitions, job.proven)
        self.home: str | None = None
        self.lost_devices = 0
        self.error: BaseException | None = None

    @property
    def claimable(self) -> bool:
        return bool(self.parts.waiting) and self.error is None and self.job.stop.reason() is None


class PartitionPool:
    """Jobs between their check and their end, a bounded number of each class."""

    def __init__(
        self,
        monitor: threading.Condition,
        devices: Iterable[str],
        bound: int,
        checked: JobQueue,
        proved: JobQueue,
        end: Callable[[Job, BaseException], None],
        on_no_device: Callable[[DeviceLostError], None],
    ) -> None:
        """Args:
        monitor: The service's, reentrant.
        bound: Jobs of each class whose partitions are in work at once.
        checked: Where jobs come from.
        proved: Where they go with all their pieces.
        end: What becomes of a job that failed; called with the monitor held.
        on_no_device: Told when the last device is set aside; called with the monitor held.
        """
        self._monitor, self._bound = monitor, bound
        self._checked, self._proved, self._end = checked, proved, end
        self._on_no_device = on_no_device
        self._up = set(devices)
        self._lost: list[str] = []
        self._entries: dict[Job, _Entry] = {}
        self._pieces: dict[Job, list[bytes]] = {}
        self._claims: set[Claim] = set()
        self._closed = False

    @property
    def devices(self) -> frozenset[str]:
        """Those not set aside."""
        return frozenset(self._up)

    def loss(self) -> DeviceLostError | None:
        """What to tell a job when no device is left; None while there is one."""
        if self._up:
            return None
        return DeviceLostError(f"no device is left to prove on: {'; '.join(self._lost)}")

    def close(self) -> None:
        """No jobs come any more: workers who find nothing to do go home."""
        with self._monitor:
            self._closed = True
            self._monitor.notify_all()

    def claim(self, device: str, until: Callable[[], bool] = lambda: False) -> Claim | None:
        """The next partition for a worker of `device`, waited for; None when it can go home.

        Args:
            until: When that is, besides the end of the service; asked whenever a job ends.
        """
        with self._monitor:
            while device in self._up and not until():
                self._admit()
                entry = self._choose(device)
                if entry is not None:
                    entry.home = entry.home or device
                    claim = Claim(entry.job, entry.parts.take(), device)
                    self._claims.add(claim)
                    return claim
                if self._closed:
                    break
                self._monitor.wait()
        return None

    def deliver(self, claim: Claim, piece: bytes) -> None:
        """A partition is proved."""
        with self._monitor:
            if claim in self._claims:
                self._claims.remove(claim)
                entry = self._entries[claim.job]
                entry.parts.put(claim.index, piece)
                self._settle(entry)

    def fail(self, claim: Claim, error: BaseException) -> None:
        """A partition failed, and with it its job, once its other partitions have stopped."""
        with self._monitor:
            if claim in self._claims:
                self._claims.remove(claim)
                entry = self._entries[claim.job]
                entry.parts.give_back(claim.index)
                self._give_up(entry, error)

    def set_aside(self, device: str, error: BaseException, claim: Claim | None = None) -> None:
        """A device failed, at a partition or by itself: others do what it was at."""
        with self._monitor:
            if device not in self._up:
                return
            self._up.remove(device)
            self._lost.append(f"{device}: {type(error).__name__}: {error}")
            if claim in self._claims:
                self._entries[claim.job].lost_devices += 1
            orphans = [c for c in self._claims if c.device == device]
            self._claims.difference_update(orphans)
            for orphan in orphans:
                self._entries[orphan.job].parts.give_back(orphan.index)
            for entry in list(self._entries.values()):
                entry.home = None if entry.home == device else entry.home
                if entry.lost_devices >= _MOST_LOST_DEVICES:
                    self._give_up(entry, error)
                elif not self._up:
                    self._give_up(entry, self.loss() or error)
                else:
                    self._settle(entry)
            loss = self.loss()
            if loss is not None:
                self._on_no_device(loss)
            self._monitor.notify_all()

    def look_at(self, job: Job) -> None:
        """A job was cancelled or has expired: end it, if nobody works on it any more."""
        with self._monitor:
            if job in self._entries:
                self._settle(self._entries[job])

    def pieces(self, job: Job) -> list[bytes]:
        """The pieces of a job that is proved, in order; they are the caller's from now on."""
        with self._monitor:
            return self._pieces.pop(job)

    def drop_pieces(self, job: Job) -> None:
        """Forget those of a job that ended without them."""
        with self._monitor:
            self._pieces.pop(job, None)

    def _room(self, priority: Priority) -> bool:
        inside = sum(job.priority is priority for job in self._entries)
        return inside < self._bound and self._proved.room(priority)

    def _admit(self) -> None:
        while (job := self._checked.take(self._room)) is not None:
            # its place after the last partition: a worker never waits to be rid of a job
            self._proved.reserve(job)
            self._entries[job] = _Entry(job)
            # one whose partitions were all proved before passes on at once
            self._settle(self._entries[job])

    def _choose(self, device: str) -> _Entry | None:
        rank = self._checked.rank
        found = sorted(
            (e for e in self._entries.values() if e.claimable), key=lambda e: rank(e.job)
        )
        if not found:
            return None
        peers = (e for e in found if e.job.priority is found[0].job.priority)
        return next((e for e in peers if e.home in (None, device)), found[0])

    def _give_up(self, entry: _Entry, error: BaseException) -> None:
        if entry.error is None:
            entry.error = error
            entry.job.stop.cancel(f"{entry.job.name} failed: {error}")
        self._settle(entry)

    def _settle(self, entry: _Entry) -> None:
        """Pass a job on, or end it, once nobody works on it."""
        job = entry.job
        # a stop that was just cancelled has called this in between
        if self._entries.get(job) is not entry:
            return
        if entry.error is None:
            entry.error = None if entry.parts.complete else job.stop.reason()
        if entry.parts.complete:
            del self._entries[job]
            self._pieces[job] = entry.parts.pieces()
            self._proved.put(job)
        elif entry.error is not None and not entry.parts.in_flight:
            del self._entries[job]
            self._proved.give_up(job)
            self._end(job, entry.error)
        self._monitor.notify_all()
