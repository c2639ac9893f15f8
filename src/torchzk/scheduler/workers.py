"""The workers of one device: threads with a stream each, who prove partitions until none is left.

A worker survives whatever a job does: its error ends that job, or sets the device aside.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial

from torchzk.errors import DeviceLostError, LockTimeoutError
from torchzk.scheduler.lanes import promised
from torchzk.scheduler.locks import DeviceLocks
from torchzk.scheduler.memory_budget import MemoryBudget
from torchzk.scheduler.partition_pool import Claim, PartitionPool
from torchzk.scheduler.partition_run import Seat, forget_frames, run_partition
from torchzk.scheduler.policies import Policy
from torchzk.scheduler.worker_device import Device
from torchzk.timeline import Timeline


class DeviceWorkers:
    """Any number of workers around the two locks of a device."""

    def __init__(
        self,
        device: Device,
        budget: MemoryBudget,
        n_workers: int,
        policy: Policy,
        pool: PartitionPool,
        timeline: Timeline,
        lock_timeout: float | None,
    ) -> None:
        """Args:
        budget: What the device has for partitions.
        lock_timeout: Seconds that a worker waits for a lock at most. Whoever holds it longer hangs
            with the device, which is set aside then.
        """
        self._device, self._policy, self._pool = device, policy, pool
        self._locks = DeviceLocks(device.name, timeline, lock_timeout)
        budget.watch(self._locks.mem.wake)
        budget.report(partial(timeline.level, promised(device.name)))

        def seat(k: int) -> Seat:
            name = f"{device.name} worker {k}"
            return Seat(name, device, self._locks, budget, timeline.on_lane(name))

        self._guest = seat(n_workers)
        seats = [seat(k) for k in range(n_workers)]
        self._threads = [
            threading.Thread(target=self._run, args=(one,), name=one.name, daemon=True)
            for one in seats
        ]

    def start(self) -> None:
        """Start the workers."""
        for thread in self._threads:
            thread.start()

    def join(self, timeout: float | None) -> None:
        """Wait until all have gone home, `timeout` seconds at most."""
        end = None if timeout is None else time.monotonic() + timeout
        for thread in self._threads:
            thread.join(None if end is None else max(end - time.monotonic(), 0))

    def work(self, until: Callable[[], bool]) -> None:
        """Be one more worker in the calling thread; see `Service.work`. One thread at a time."""
        try:
            self._work(self._guest, until)
        except BaseException as error:
            # a signal, which may have come anywhere: what this thread was at is nobody's any more
            self._set_aside(error, None)
            raise

    def _run(self, seat: Seat) -> None:
        try:
            self._work(seat, lambda: False)
        except BaseException as error:
            # no stream, no device
            self._set_aside(error, None)

    def _work(self, seat: Seat, until: Callable[[], bool]) -> None:
        with self._device.open_stream():
            while (claim := self._pool.claim(self._device.name, until)) is not None:
                self._prove(seat, claim)
                # a job's input must not outlive it in a variable of a worker that waits
                del claim

    def _prove(self, seat: Seat, claim: Claim) -> None:
        try:
            piece = self._run_claim(seat, claim)
        except BaseException as error:
            forget_frames(error)
            if isinstance(error, DeviceLostError | LockTimeoutError) or seat.is_lost(error):
                self._set_aside(error, claim)
            else:
                self._pool.fail(claim, error)
        else:
            self._pool.deliver(claim, piece)

    def _run_claim(self, seat: Seat, claim: Claim) -> bytes:
        """A function of its own, so that its frame can be forgotten with the work it holds."""
        job = claim.job
        seat.check(job.stop)
        work = job.work.partition(claim.index, self._device, seat.timeline)

        def set_aside_if_lost(error: BaseException) -> None:
            if seat.is_lost(error):
                self._set_aside(error, claim)

        return run_partition(self._policy, work, seat, job.stop, set_aside_if_lost)

    def _set_aside(self, error: BaseException, claim: Claim | None) -> None:
        self._pool.set_aside(self._device.name, error, claim)
        self._locks.close(f"{self._device.name} is set aside: {error}")
