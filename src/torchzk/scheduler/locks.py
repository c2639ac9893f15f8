"""The two locks of a device, one after the other and never both: so nobody can deadlock.

A worker stages its inputs under the mem lock and runs its kernels under the compute lock. It never
waits for one while it holds the other, takes mem before compute, and each once a turn; whoever
breaks this gets a `ProtocolError`, not a hang.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal, Protocol

from torchzk.errors import DeviceLostError, LockTimeoutError, ProtocolError
from torchzk.scheduler.stop import Stop
from torchzk.timeline import Timeline

LockName = Literal["mem", "compute"]


class Gate(Protocol):
    """What the head of a lock's queue waits for besides the lock, e.g. memory."""

    def ready(self) -> bool:
        """Whether it may pass; true at most once, and then it has what it waited for."""
        ...

    def reason(self) -> str:
        """Why it may not, for the error of a wait that took too long."""
        ...


@dataclass(frozen=True)
class _Holder:
    who: str
    thread: int
    since: float


class FairLock:
    """A lock that is had in the order it was asked for.

    Its holds are spans of the lane `name`, its waits of `name waits`, each named by who it is.
    """

    def __init__(self, name: str, timeline: Timeline, timeout: float | None = None) -> None:
        """Args: timeout: Seconds that anybody waits, at most; None for ever."""
        self.name = name
        self._holds = timeline.on_lane(name)
        self._waits = timeline.on_lane(f"{name} waits")
        self._timeout = timeout
        self._changed = threading.Condition()
        self._queue: deque[object] = deque()
        self._holder: _Holder | None = None
        self._closed: str | None = None
        self._never_with: list[FairLock] = []

    @property
    def held_by_caller(self) -> bool:
        """Whether the calling thread holds the lock."""
        holder = self._holder
        return holder is not None and holder.thread == threading.get_ident()

    @property
    def waiting(self) -> int:
        """How many wait for it."""
        return len(self._queue)

    def never_with(self, other: FairLock) -> None:
        """Refuse whoever holds one of the two and asks for the other."""
        self._never_with.append(other)
        other._never_with.append(self)

    def wake(self) -> None:
        """Have those who wait look again: a gate may have opened, a job been cancelled."""
        with self._changed:
            self._changed.notify_all()

    def close(self, reason: str) -> None:
        """Refuse everybody from now on, those who wait included; the holder keeps it until done."""
        with self._changed:
            self._closed = self._closed or reason
            self._changed.notify_all()

    @contextmanager
    def held(self, who: str, stop: Stop | None = None, gate: Gate | None = None) -> Iterator[None]:
        """Hold the lock for the body, and let go of it however the body ends.

        Args:
            who: The name of its spans, and of the holder in others' errors.
            stop: Ends the wait when its job is cancelled or expires.
            gate: What must be ready as well. It is asked at the head of the queue only, so that a
                large request is not overtaken for ever by small ones.

        Raises:
            ProtocolError: The caller holds this lock, or one that it is never held with.
            LockTimeoutError: The wait took too long.
            CancelledError: The job was cancelled during the wait.
            ExpiredError: The job's deadline passed during the wait.
            DeviceLostError: The lock is closed.
        """
        for lock in (self, *self._never_with):
            if lock.held_by_caller:
                raise ProtocolError(
                    f"{who} asks for {self.name} while it holds {lock.name}: "
                    "let go of one lock before taking the next"
                )
        taken = False
        try:
            with self._waits.span(who):
                self._take(who, stop or Stop(), gate)
                taken = True
            with self._holds.span(who):
                yield
        finally:
            if taken:
                with self._changed:
                    self._holder = None
                    self._changed.notify_all()

    def _take(self, who: str, stop: Stop, gate: Gate | None) -> None:
        start, ticket = time.monotonic(), object()
        unwatch = stop.watch(self.wake)
        try:
            with self._changed:
                self._queue.append(ticket)
                try:
                    while not self._may_pass(ticket, stop, gate):
                        waited = time.monotonic() - start
                        if self._timeout is not None and waited >= self._timeout:
                            raise LockTimeoutError(self._too_long(who, waited, gate))
                        patience = None if self._timeout is None else self._timeout - waited
                        limits = [t for t in (patience, stop.seconds_left()) if t is not None]
                        self._changed.wait(max(min(limits), 0) if limits else None)
                    self._holder = _Holder(who, threading.get_ident(), time.monotonic())
                finally:
                    self._queue.remove(ticket)
                    # the next in line is at the head now
                    self._changed.notify_all()
        finally:
            unwatch()

    def _may_pass(self, ticket: object, stop: Stop, gate: Gate | None) -> bool:
        if self._closed is not None:
            raise DeviceLostError(self._closed)
        stop.check()
        if self._holder is not None or self._queue[0] is not ticket:
            return False
        return gate is None or gate.ready()

    def _too_long(self, who: str, waited: float, gate: Gate | None) -> str:
        holder = self._holder
        if holder is not None:
            held = time.monotonic() - holder.since
            why = f"{holder.who} has held it for {held:.1f} s"
        elif gate is not None:
            why = f"it is free, but {gate.reason()}"
        else:
            why = "it is free, but not the first in line"
        return f"{who} waited {waited:.1f} s for {self.name}: {why}"


class DeviceLocks:
    """The mem and the compute lock of one device."""

    def __init__(self, device: str, timeline: Timeline, timeout: float | None = None) -> None:
        self.mem = FairLock(f"{device} mem lock", timeline, timeout)
        self.compute = FairLock(f"{device} compute lock", timeline, timeout)
        self.mem.never_with(self.compute)
        self._closed: str | None = None

    def turn(self, who: str, stop: Stop | None = None) -> Turn:
        """One partition's way through the locks."""
        return Turn(self, who, stop)

    def close(self, reason: str) -> None:
        """The device failed: nobody gets a lock of it any more."""
        self._closed = self._closed or reason
        self.mem.close(reason)
        self.compute.close(reason)

    def check(self) -> None:
        """Raise `DeviceLostError` once the locks are closed."""
        if self._closed is not None:
            raise DeviceLostError(self._closed)


class Turn:
    """Remembers which locks one partition has had: mem, then compute, each at most once."""

    def __init__(self, locks: DeviceLocks, who: str, stop: Stop | None) -> None:
        self._locks, self._who, self._stop = locks, who, stop
        self._last: LockName | None = None

    @contextmanager
    def holding(self, name: LockName, gate: Gate | None = None) -> Iterator[None]:
        """Hold one of the locks for the body.

        Raises:
            ProtocolError: It comes after itself or mem after compute; and as `FairLock.held`.
        """
        if self._last is not None and (self._last, name) != ("mem", "compute"):
            raise ProtocolError(
                f"{self._who} asks for the {name} lock after the {self._last} lock: "
                "in one turn mem comes first, then compute, each once"
            )
        self._last = name
        lock = self._locks.mem if name == "mem" else self._locks.compute
        with lock.held(self._who, self._stop, gate):
            yield
