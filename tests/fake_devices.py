"""Devices, partitions and jobs that do nothing but keep account, and break on demand."""

from __future__ import annotations

import signal
import sys
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest

from torchzk.scheduler.memory_budget import MemoryBudget
from torchzk.scheduler.service import DeviceSetup
from torchzk.scheduler.work import Job
from torchzk.scheduler.worker_device import Device
from torchzk.timeline import Timeline

STEPS = ("read", "check", "prepare", "stage", "compute", "finish", "end")
"""Those of a job and of its partitions, as scripts call them."""


class BrokenError(Exception):
    """What a step of a bad job raises."""


class GoneError(Exception):
    """What everything on a lost device raises."""


class Referee:
    """Counts who is where at once; what must never be is kept, since workers survive errors."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._inside: Counter[str] = Counter()
        self.most: Counter[str] = Counter()
        self.calls: Counter[str] = Counter()
        self.faults: list[str] = []

    @contextmanager
    def inside(self, place: str) -> Iterator[None]:
        with self._guard:
            self.calls[place] += 1
            self._inside[place] += 1
            self.most[place] = max(self.most[place], self._inside[place])
        try:
            yield
        finally:
            with self._guard:
                self._inside[place] -= 1

    def note(self, fault: str) -> None:
        with self._guard:
            self.faults.append(fault)


class FakeDevice:
    """An allocator that keeps what was freed for the stream it was made on, as torch's does."""

    def __init__(self, name: str = "fake:0", capacity: int = 100) -> None:
        self.name, self.capacity = name, capacity
        self.gone = False
        self.trims = self.hidden_trims = self.peak = 0
        self.on_trim: Callable[[], None] = lambda: None
        self._guard = threading.Lock()
        self._used = 0
        self._kept: Counter[int] = Counter()

    @contextmanager
    def open_stream(self) -> Iterator[None]:
        yield

    @property
    def used(self) -> int:
        return self._used

    def free_bytes(self) -> int:
        with self._guard:
            kept = sum(n for stream, n in self._kept.items() if stream != threading.get_ident())
            return self.capacity - self._used - kept

    def trim(self) -> None:
        self.on_trim()
        with self._guard:
            self.trims += 1
            self._kept.clear()

    def is_lost(self, error: BaseException) -> bool:
        return isinstance(error, GoneError)

    def take(self, n: int) -> None:
        self.touch()
        stream = threading.get_ident()
        with self._guard:
            self._kept[stream] -= min(self._kept[stream], n)
            if self._used + n > self.capacity:
                raise MemoryError(f"{n} bytes with {self._used} of {self.capacity} used")
            self._used += n
            self.peak = max(self.peak, self._used)
            if self._used + self._kept.total() > self.capacity:
                # torch, too, empties its cache before it gives up
                self.hidden_trims += 1
                self._kept.clear()

    def give(self, n: int) -> None:
        with self._guard:
            self._used -= n
            self._kept[threading.get_ident()] += n

    def touch(self) -> None:
        if self.gone:
            raise GoneError(f"{self.name} fell off the bus")


@dataclass
class Script:
    """What a job does: seconds by step, and the step at which it breaks."""

    n_partitions: int = 1
    planned: int = 10
    seconds: Mapping[str, float] = field(default_factory=dict)
    breaks: str | None = None
    at_partition: int = 0
    hooks: Mapping[str, Callable[[], None]] = field(default_factory=dict)
    """Called in a step, before it can break."""
    before_break: Callable[[], object] = lambda: None
    """Called by the partition that breaks."""


class FakePartition:
    """One partition: takes half its bytes when staged, and the rest when it computes."""

    def __init__(self, job: FakeJob, index: int, device: FakeDevice) -> None:
        self.job, self.index, self.device = job, index, device
        self.planned_bytes = job.script.planned
        self._taken = 0
        self._done: list[str] = []
        job.started.append(index)

    def prepare(self) -> None:
        self._step("prepare")

    def stage(self) -> None:
        self._take(self.planned_bytes // 2)
        self._step("stage")

    def compute(self, check: Callable[[], None]) -> None:
        self._take(self.planned_bytes - self._taken)
        for _ in range(3):
            check()
        self._step("compute")

    def drop(self) -> None:
        self.job.drops.append(self.index)
        if "drop" in self._done:
            self.job.referee.note(f"{self.job.name}.{self.index} dropped twice")
        self._done.append("drop")
        self.device.give(self._taken)
        self._taken = 0

    def finish(self) -> bytes:
        if self._taken:
            self.job.referee.note(f"{self.job.name}.{self.index} finishes with memory taken")
        self._step("finish")
        return bytes([self.index])

    def _take(self, n: int) -> None:
        try:
            self.device.take(n)
        except MemoryError as e:
            self.job.referee.note(f"{self.job.name}.{self.index}: {e}")
            raise
        self._taken += n

    def _step(self, name: str) -> None:
        if name in self._done:
            self.job.referee.note(f"{self.job.name}.{self.index} {name} twice")
        self._done.append(name)
        self.device.touch()
        with self.job.referee.inside(f"{self.device.name} {name}"):
            self.job.act(name, self.index == self.job.script.at_partition)
        self.device.touch()


class FakeJob:
    """A job as its script says."""

    def __init__(self, name: str, script: Script, referee: Referee) -> None:
        self.name, self.script, self.referee = name, script, referee
        self.n_partitions = script.n_partitions
        self.started: list[int] = []
        self.drops: list[int] = []

    def read(self) -> None:
        with self.referee.inside("read"):
            self.act("read")

    def check(self) -> None:
        with self.referee.inside("check"):
            self.act("check")

    def partition(self, index: int, device: Device, timeline: Timeline) -> FakePartition:
        assert isinstance(device, FakeDevice)
        return FakePartition(self, index, device)

    def finish(self, pieces: Sequence[bytes]) -> bytes:
        with self.referee.inside("end"):
            self.act("end")
        return b"".join(pieces)

    def act(self, step: str, here: bool = True) -> None:
        seconds = self.script.seconds.get(step, 0.0)
        if seconds:
            time.sleep(seconds)
        self.script.hooks.get(step, lambda: None)()
        if here and self.script.breaks == step:
            self.script.before_break()
            raise BrokenError(f"{self.name} breaks at {step}")


@contextmanager
def watchdog(seconds: float = 300.0) -> Iterator[None]:
    """Fail, and say where every thread is, when they wait for each other for ever."""

    def bark(*_: object) -> None:
        stacks = (traceback.format_stack(frame)[-3:] for frame in sys._current_frames().values())
        raise AssertionError("nothing moves:\n" + "\n".join("".join(s) for s in stacks))

    before = signal.signal(signal.SIGALRM, bark)
    # again and again: leaving a service waits once more
    signal.setitimer(signal.ITIMER_REAL, seconds, 1.0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def count_ends(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    ends: Counter[str] = Counter()
    real = Job.end

    def end(job: Job, result: bytes | None = None, error: BaseException | None = None) -> None:
        ends[job.name] += 1
        real(job, result, error)

    monkeypatch.setattr(Job, "end", end)
    return ends


def setups(*devices: FakeDevice, workers: int = 2) -> list[DeviceSetup]:
    return [DeviceSetup(d, MemoryBudget(d.name, d.capacity), workers) for d in devices]


def gate() -> tuple[Callable[[], None], threading.Event, threading.Event]:
    """A hook that says when it is reached, and waits until it may go on."""
    reached, go = threading.Event(), threading.Event()

    def hook() -> None:
        reached.set()
        assert go.wait(120)

    return hook, reached, go


def proof(n: int) -> bytes:
    return bytes(range(n))


def until(there: Callable[[], bool]) -> None:
    """Wait for what other threads or processes are about to do."""
    end = time.monotonic() + 120
    while not there():
        assert time.monotonic() < end, "it never happened"
        time.sleep(0.001)


def settle(count: Callable[[], int], least: int) -> None:
    """Wait until a count is there, and then until it has not grown for a while."""
    end = time.monotonic() + 120
    while count() < least:
        assert time.monotonic() < end, f"{count()} of {least}"
        time.sleep(0.001)
    last, since = count(), time.monotonic()
    while time.monotonic() < since + 0.05:
        time.sleep(0.002)
        if count() != last:
            last, since = count(), time.monotonic()
