"""Jobs in, proofs out, over all devices: read, checked, proved by partition, finished.

    submit -> [submitted] reading -> [read] checking -> [checked] workers of every device
           -> [proved] finishing -> the job's end

Names in brackets are bounded queues, so memory is bounded whatever is submitted. One monitor guards
where every job is; nothing waits, computes or calls a job's code with it held.
"""

from __future__ import annotations

import heapq
import itertools
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType, TracebackType

from torchzk.errors import DeviceLostError, ProtocolError
from torchzk.scheduler.job_queue import HEAD_START, JobQueue
from torchzk.scheduler.memory_budget import MemoryBudget
from torchzk.scheduler.partition_pool import PartitionPool
from torchzk.scheduler.policies import TWO_LOCKS, Policy
from torchzk.scheduler.stations import Station
from torchzk.scheduler.stop import Stop
from torchzk.scheduler.work import Job, JobWork, Priority
from torchzk.scheduler.worker_device import Device
from torchzk.scheduler.workers import DeviceWorkers
from torchzk.timeline import Timeline

_SWITCH = 1e-4
"""Seconds after which a thread that computes gives way to one that waits for the interpreter. Who
launches kernels waits for it after every launch, behind another's final sums: by default 5 ms."""
_PATIENCE = 5.0
"""Seconds that closing waits for a worker of a device that was set aside: it may hang."""


@dataclass(frozen=True)
class DeviceSetup:
    """One device of a service."""

    device: Device
    budget: MemoryBudget
    workers: int = 2
    """Threads; 0 where only `Service.work` proves."""


@dataclass(frozen=True)
class Limits:
    """How many jobs are where at most, each class counted by itself, and how many threads work."""

    submitted: int = 1024
    read: int = 2
    checked: int = 2
    proving: int = 4
    """Jobs whose partitions are in work at once: sectors in flight."""
    proved: int = 2
    """Jobs that wait for their finish while as many are proving as may."""
    readers: int = 1
    checkers: int = 1
    finishers: int = 1
    lock_timeout: float | None = None
    """Seconds that a worker waits for a lock; a device where that is too long is set aside."""


class Service:
    """A queue of jobs and the devices that prove them. Use it in a `with`."""

    def __init__(
        self,
        devices: Sequence[DeviceSetup],
        policy: Policy = TWO_LOCKS,
        timeline: Timeline | None = None,
        limits: Limits | None = None,
        head_start: Mapping[Priority, float] = HEAD_START,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        timeline, limits = timeline or Timeline(), limits or Limits()
        names = [setup.device.name for setup in devices]
        if len(set(names)) != len(names) or any(setup.workers < 0 for setup in devices):
            raise ProtocolError(f"devices {names}: each is there once, with 0 workers or more")
        self._clock, self._switch = clock, sys.getswitchinterval()
        self._monitor = monitor = threading.Condition(threading.RLock())
        self._submitted = JobQueue("submitted", limits.submitted, head_start)
        self._read = JobQueue("read", limits.read, head_start)
        self._checked = JobQueue("checked", limits.checked, head_start)
        self._proved = JobQueue("proved", limits.proving + limits.proved, head_start)
        self._pool = PartitionPool(
            monitor,
            names,
            limits.proving,
            self._checked,
            self._proved,
            self._end,
            self._end_unproved,
        )
        self._workers = {
            d.device.name: DeviceWorkers(
                d.device, d.budget, d.workers, policy, self._pool, timeline, limits.lock_timeout
            )
            for d in devices
        }
        rows = (
            ("reading", self._submitted, self._read, _read, self._pool.loss, limits.readers),
            ("checking", self._read, self._checked, _check, self._pool.loss, limits.checkers),
            ("finishing", self._proved, None, self._finish, lambda: None, limits.finishers),
        )
        self._stations = [
            Station(name, monitor, source, target, handle, self._end, refuse, n, timeline)
            for name, source, target, handle, refuse, n in rows
        ]
        self._unwatch: dict[Job, Callable[[], None]] = {}
        self._closing = False
        self._deadlines: list[tuple[float, int, Job]] = []
        self._count = itertools.count()
        self._new_deadline = threading.Condition()
        self._keeper = threading.Thread(target=self._keep_deadlines, name="deadlines", daemon=True)

    @property
    def devices(self) -> frozenset[str]:
        """Names of the devices that are not set aside."""
        return self._pool.devices

    @property
    def live(self) -> int:
        """Jobs that have not ended."""
        return len(self._unwatch)

    def __enter__(self) -> Service:
        sys.setswitchinterval(_SWITCH)
        for station in self._stations:
            station.start()
        for workers in self._workers.values():
            workers.start()
        self._keeper.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None
    ) -> None:
        """Wait for all jobs, or cancel them if the body failed; then for all threads."""
        self.close(cancel=kind is not None)

    def submit(
        self,
        name: str,
        work: JobWork,
        priority: Priority = Priority.REST,
        *,
        seconds: float | None = None,
        patience: float = 0.0,
        age: float = 0.0,
        proven: Mapping[int, bytes] = MappingProxyType({}),
        on_end: Callable[[Job], None] | None = None,
    ) -> Job:
        """Hand in a job.

        Args:
            name: What errors call it.
            work: What it does.
            priority: Its class.
            seconds: Until its deadline, None without one.
            patience: Seconds to wait for a place when the queue is full.
            age: Seconds that it has waited elsewhere, which count in its rank.
            proven: Pieces of partitions that were proved before, by index.
            on_end: Told when it has ended, with locks of the service held: must not wait.

        Raises:
            QueueFullError: There is no place for it.
            DeviceLostError: There is no device left.
            ProtocolError: The service is closed.
        """
        now = self._clock()
        # no wait can be so long, nor anybody
        limited = seconds is not None and seconds < threading.TIMEOUT_MAX
        stop = Stop(now + (seconds or 0.0) if limited else None, self._clock)
        job = Job(name, work, priority, stop, now - age, proven, on_end)
        with self._monitor:
            self._monitor.wait_for(
                lambda: self._submitted.room(priority) or self._closing, patience
            )
            if self._closing:
                raise ProtocolError(f"{name} is submitted to a service that is closed")
            loss = self._pool.loss()
            if loss is not None:
                raise loss
            self._submitted.reserve(job)
            self._submitted.put(job)
            self._unwatch[job] = stop.watch(lambda: self._look_at(job))
            self._monitor.notify_all()
        if stop.deadline is not None:
            with self._new_deadline:
                heapq.heappush(self._deadlines, (stop.deadline, next(self._count), job))
                self._new_deadline.notify_all()
        return job

    def work(self, job: Job, device: str) -> None:
        """Be one more worker of a device in the calling thread, until `job` has ended.

        So a signal, which Python hands to the main thread, ends the partition that this one is at
        within its current stage; it is the job's error, or is raised here.
        """
        self._workers[device].work(lambda: job.ended)

    def set_aside(self, device: str, error: BaseException) -> None:
        """Prove on a device no more; what it is at is done by others, if there are any."""
        self._pool.set_aside(device, error)

    def close(self, *, cancel: bool = False) -> None:
        """Take no more jobs, wait for those there are, or cancel them, and end all threads."""
        with self._monitor:
            self._closing = True
            jobs = list(self._unwatch) if cancel else []
        for job in jobs:
            job.cancel()
        with self._monitor:
            self._monitor.notify_all()
            self._monitor.wait_for(lambda: not self._unwatch)
        self._pool.close()
        for station in self._stations:
            station.close()
        with self._new_deadline:
            self._deadlines.clear()
            self._new_deadline.notify_all()
        for station in self._stations:
            station.join()
        for name, workers in self._workers.items():
            workers.join(None if name in self._pool.devices else _PATIENCE)
        self._keeper.join()
        sys.setswitchinterval(self._switch)

    def _finish(self, job: Job) -> bytes:
        result = job.work.finish(self._pool.pieces(job))
        if not isinstance(result, bytes):
            raise ProtocolError(f"{job.name} was finished with no proof but {type(result)}")
        return result

    def _end(
        self, job: Job, error: BaseException | None = None, result: bytes | None = None
    ) -> None:
        """End a job that is nowhere any more. The monitor is held."""
        self._pool.drop_pieces(job)
        self._unwatch.pop(job)()
        job.end(result, error)
        self._monitor.notify_all()

    def _end_unproved(self, loss: DeviceLostError) -> None:
        """No device is left: end whoever waits for one. The monitor is held."""
        for queue in (self._submitted, self._read, self._checked):
            while (job := queue.take()) is not None:
                self._end(job, loss)

    def _look_at(self, job: Job) -> None:
        """A job was cancelled or has expired: end it, unless somebody works on it now."""
        with self._monitor:
            reason = job.stop.reason()
            if job not in self._unwatch or reason is None:
                return
            queues = (self._submitted, self._read, self._checked, self._proved)
            if any(queue.remove(job) for queue in queues):
                self._end(job, reason)
            else:
                # those who work on it at a station look at it themselves
                self._pool.look_at(job)

    def _keep_deadlines(self) -> None:
        while True:
            with self._new_deadline:
                if not self._deadlines:
                    if self._closing and not self._unwatch:
                        return
                    self._new_deadline.wait()
                    continue
                moment, _, job = self._deadlines[0]
                left = moment - self._clock()
                if left > 0:
                    self._new_deadline.wait(left)
                    continue
                heapq.heappop(self._deadlines)
            self._look_at(job)
            del job


def _read(job: Job) -> None:
    job.work.read()


def _check(job: Job) -> None:
    job.work.check()
    job.n_partitions = job.work.n_partitions
    if job.n_partitions < 1:
        raise ProtocolError(f"{job.name} has {job.n_partitions} partitions")
    if any(index not in range(job.n_partitions) for index in job.proven):
        raise ProtocolError(
            f"{job.name} has {job.n_partitions} partitions, proved before were {sorted(job.proven)}"
        )
