"""A worker and its device: one partition under each of the policies."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from itertools import pairwise

from torchzk.scheduler.simulation.clock import Clock, Event, Lock, Process, Signal
from torchzk.scheduler.simulation.record import Record
from torchzk.scheduler.simulation.resources import Host, Room
from torchzk.scheduler.simulation.scenario import Scenario, Stage


@dataclass(frozen=True)
class Device:
    """What the workers of one device share."""

    number: int
    memory: Lock
    compute: Lock
    room: Room
    link: Lock

    def lane(self, of: str) -> str:
        """The name of a lane of this device."""
        return f"device {self.number} {of}"


class Uploads:
    """All uploads of one partition, piece by piece, as fast as link and buffers let them."""

    def __init__(self, clock: Clock, stages: tuple[Stage, ...], staging: int) -> None:
        self._free = staging
        self._used = Signal(clock)
        # (stage, piece) -> its bytes, and when they are there
        self._pieces: dict[tuple[int, int], tuple[int, Event]] = {}
        for number, stage in enumerate(stages):
            edges = [stage.upload * piece // stage.pieces for piece in range(stage.pieces + 1)]
            for piece, (start, end) in enumerate(pairwise(edges)):
                if end > start:
                    self._pieces[number, piece] = (end - start, Event(clock))

    def run(self, device: Device, link: int, lane: str, record: Record) -> Process:
        """Send every piece in order of use."""
        name = f"for {lane.removeprefix(device.lane(''))}"
        for size, there in self._pieces.values():
            while self._free < size:
                yield self._used.next
            self._free -= size
            yield from device.link.take()
            with record.span(device.lane("uploads"), name, record.uploads[device.number]):
                yield size / link
            record.uploaded += size
            device.link.leave()
            there.set()

    def there(self, stage: int, piece: int) -> Event | None:
        """What kernels of a piece wait for; None where they need nothing."""
        return self._pieces[stage, piece][1] if (stage, piece) in self._pieces else None

    def used(self, stage: int, piece: int) -> None:
        """Give the buffer of a piece back."""
        if (stage, piece) in self._pieces:
            self._free += self._pieces[stage, piece][0]
            self._used.change()


@dataclass
class Worker:
    """Proves one partition after the other."""

    lane: str
    device: Device
    scenario: Scenario
    host: Host
    record: Record

    def waits(self, what: str) -> AbstractContextManager[None]:
        """A wait of this worker's around the body."""
        return self.record.wait("workers", self.lane, what)

    def prove(self) -> Process:
        """One partition, from taking it to having its proof."""
        policies = {
            "whole": self._whole,
            "kernels": self._kernels_only,
            "ahead": self._ahead,
            "two_locks": self._two_locks,
        }
        start = self.record.clock.now
        yield from policies[self.scenario.schedule.policy]()
        self.record.jobs[self.device.number].append((start, self.record.clock.now))

    def _whole(self) -> Process:
        yield from self._take(self.device.compute, "compute lock")
        with self._holding("compute lock"):
            yield from self._before()
            yield from self._allocate(alone=True)
            yield from self._kernels(self._send())
            yield from self._after()
        self.device.compute.leave()

    def _kernels_only(self) -> Process:
        yield from self._before()
        yield from self._compute(None)
        yield from self._after()

    def _ahead(self) -> Process:
        uploads, before = None, self.record.clock.spawn(self._before())
        if self.device.room.stage():
            yield from self._allocate()
            uploads = self._send()
        yield from self._until(before, "its own preparation")
        yield from self._compute(uploads)
        yield from self._after()

    def _two_locks(self) -> Process:
        before = self.record.clock.spawn(self._before())
        yield from self._take(self.device.memory, "memory lock")
        with self._holding("memory lock"):
            with self.waits("room"):
                while not self.device.room.stage():
                    yield self.device.room.changed.next
            yield from self._allocate()
            uploads = self._send()
        self.device.memory.leave()
        yield from self._until(before, "its own preparation")
        yield from self._compute(uploads)
        yield from self._after()

    def _compute(self, uploads: Uploads | None) -> Process:
        """Kernels under the compute lock, and uploads with them where none began before."""
        yield from self._take(self.device.compute, "compute lock")
        while uploads is None and not self.device.room.whole_fits():
            # whoever staged needs the lock to be done with its buffers
            self.device.compute.leave()
            with self.waits("room"):
                yield self.device.room.changed.next
            yield from self._take(self.device.compute, "compute lock")
        with self._holding("compute lock"):
            if uploads is None:
                # from now on the room is taken, before anything is allocated in it
                self.device.room.enter(0)
                yield from self._allocate(alone=True)
                yield from self._kernels(self._send())
            else:
                yield from self._kernels(uploads, staged=True)
        self.device.compute.leave()

    def _before(self) -> Process:
        with self.record.span(self.lane, "before the kernels"):
            yield from self.host.work(self.scenario.partition.before)

    def _after(self) -> Process:
        with self.record.span(self.lane, "after the kernels"):
            yield from self.host.work(self.scenario.partition.after)

    def _allocate(self, *, alone: bool = False) -> Process:
        kernels = self.device.compute.holder_leaves
        if self.scenario.schedule.allocation_waits and kernels is not None and not alone:
            yield from self._until(kernels, "kernels of others, to allocate")
        with self.record.span(self.lane, "allocate"):
            yield self.scenario.partition.allocation

    def _send(self) -> Uploads:
        """Start all uploads of a partition."""
        stages, staging = self.scenario.partition.stages, self.scenario.schedule.staging
        uploads = Uploads(self.record.clock, stages, staging)
        link = self.scenario.machine.link
        self.record.clock.spawn(uploads.run(self.device, link, self.lane, self.record))
        return uploads

    def _kernels(self, uploads: Uploads, *, staged: bool = False) -> Process:
        device, kept = self.device, self.record.kernels[self.device.number]
        for number, stage in enumerate(self.scenario.partition.stages):
            device.room.enter(number, staged=staged)
            for piece in range(stage.pieces):
                there = uploads.there(number, piece)
                if there is not None:
                    yield from self._until(there, "uploads")
                with self.record.span(device.lane("kernels"), stage.name, kept):
                    yield stage.seconds / stage.pieces
                uploads.used(number, piece)
        device.room.finish()

    def _take(self, lock: Lock, name: str) -> Process:
        with self.waits(f"the {name}"):
            yield from lock.take()

    def _until(self, event: Event, what: str) -> Process:
        with self.waits(what):
            yield event

    @contextmanager
    def _holding(self, lock: str) -> Iterator[None]:
        holder = self.lane.removeprefix(self.device.lane(""))
        with self.record.span(self.device.lane(lock), f"held by {holder}"):
            yield
