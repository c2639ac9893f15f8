"""What processes share: the cores of the host, the link to a device, its memory."""

from __future__ import annotations

from dataclasses import dataclass

from torchzk.scheduler.simulation.clock import Clock, Event, Process, Signal
from torchzk.scheduler.simulation.scenario import HostWork, Machine, Partition

_NOTHING_LEFT = 1e-12
"""Seconds of work below which a piece of it is done: the rounding of many small steps."""


@dataclass(eq=False)
class _Task:
    left: float
    """Seconds of work as it would take alone."""
    cores: int
    done: Event


class Host:
    """Cores and memory bandwidth, shared evenly: all work slows down alike."""

    def __init__(self, clock: Clock, machine: Machine) -> None:
        self._clock = clock
        self._machine = machine
        self._tasks: list[_Task] = []
        self._since = 0.0
        self._plan = 0

    @property
    def slowdown(self) -> float:
        """How many times longer than alone everything takes now."""
        cores = sum(task.cores for task in self._tasks)
        shared = 1 + self._machine.contention * max(0, len(self._tasks) - 1)
        return max(1.0, cores / self._machine.cores) * shared

    def work(self, work: HostWork) -> Process:
        """Do a piece of work among all the others."""
        if not work.seconds:
            return
        self._advance()
        task = _Task(work.seconds, work.cores, Event(self._clock))
        self._tasks.append(task)
        self._look_ahead()
        yield task.done

    def _advance(self) -> None:
        """Count what was done since the last change."""
        done = (self._clock.now - self._since) / self.slowdown
        self._since = self._clock.now
        for task in self._tasks:
            task.left -= done

    def _look_ahead(self) -> None:
        """Come back when the first piece of work is done, unless something changes before."""
        self._plan += 1
        if not self._tasks:
            return
        plan = self._plan
        soonest = max(0.0, min(task.left for task in self._tasks)) * self.slowdown

        def finish() -> None:
            if plan != self._plan:
                return
            self._advance()
            least = min(task.left for task in self._tasks)
            ended = [t for t in self._tasks if t.left <= max(_NOTHING_LEFT, least)]
            self._tasks = [t for t in self._tasks if t not in ended]
            self._look_ahead()
            for task in ended:
                task.done.set()

        self._clock.at(self._clock.now + soonest, finish)


class Profile:
    """Bytes that a partition holds from stage to stage."""

    def __init__(self, partition: Partition, staging: int) -> None:
        uploads = [i for i, stage in enumerate(partition.stages) if stage.upload]
        # buffers are there until the last upload has been used
        last = uploads[-1] if uploads else -1
        self.staging = staging if uploads else 0
        self.held = [s.holds + self.staging * (i <= last) for i, s in enumerate(partition.stages)]

    def peak(self, stage: int = 0) -> int:
        """The most bytes from this stage on."""
        return max(self.held[stage:], default=0)


class Room:
    """A device's memory as a plan: who stages ahead, and who computes.

    Room for staging ahead is given only if neither the one who computes now nor any of those who
    will compute while others have staged can run out of memory. So no plan is ever broken, and
    whoever waits for room is let in when others have finished.
    """

    def __init__(self, clock: Clock, machine: Machine, profile: Profile) -> None:
        self.changed = Signal(clock)
        self.most_planned = machine.resident
        self._free = machine.memory - machine.resident
        self._resident = machine.resident
        self._profile = profile
        self._staged = 0
        self._computing: int | None = None

    def stage(self) -> bool:
        """Take buffers for uploads ahead of the kernels, if that can break nobody's plan."""
        now = self._profile.peak(self._computing) if self._computing is not None else 0
        others = self._staged * self._profile.staging
        need = others + max(self._profile.staging + now, self._profile.peak())
        if need > self._free:
            return False
        self._staged += 1
        self._note()
        return True

    def whole_fits(self) -> bool:
        """Whether those who staged leave the room of a whole partition to who did not."""
        return self._staged * self._profile.staging + self._profile.peak() <= self._free

    def enter(self, stage: int, *, staged: bool = False) -> None:
        """Kernels of this stage begin; with the first, what was staged is theirs."""
        if stage == 0:
            self._staged -= staged
        self._computing = stage
        self._note()
        self.changed.change()

    def finish(self) -> None:
        """The last kernel is done."""
        self._computing = None
        self.changed.change()

    def _note(self) -> None:
        computing = self._profile.held[self._computing] if self._computing is not None else 0
        planned = self._resident + self._staged * self._profile.staging + computing
        self.most_planned = max(self.most_planned, planned)
