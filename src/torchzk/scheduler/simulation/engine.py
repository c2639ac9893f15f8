"""The schedule, played through: sectors are read, partitions prepared, proven by workers."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from torchzk.errors import ConfigError
from torchzk.scheduler.simulation.clock import Clock, Lock, Process, Queue, Signal
from torchzk.scheduler.simulation.record import Record
from torchzk.scheduler.simulation.resources import Host, Profile, Room
from torchzk.scheduler.simulation.scenario import MOST, Scenario
from torchzk.scheduler.simulation.worker import Device, Worker

_Item = tuple[int, int]
"""A sector and one of its partitions."""


@dataclass(frozen=True)
class Played:
    """A scenario and what came of it."""

    scenario: Scenario
    record: Record
    most_planned: int
    """Bytes of device memory, on the device that planned most."""


def sectors_of(scenario: Scenario) -> int:
    """Sectors that go through: enough for a steady state where the scenario does not say."""
    return scenario.sectors or 4 * scenario.schedule.sectors_in_flight + 4


def play(scenario: Scenario) -> Played:
    """Play a scenario from its first sector to its last.

    Raises:
        ConfigError: One partition alone does not fit into the memory of a device.
    """
    machine, schedule = scenario.machine, scenario.schedule
    profile = Profile(scenario.partition, schedule.staging)
    need = machine.resident + max(profile.peak(), profile.staging)
    if need > machine.memory:
        raise ConfigError(
            f"machine.memory: {machine.memory / 2**30:.1f} GiB; one partition and what is resident "
            f"take {need / 2**30:.1f} GiB; take a larger device, or let stages hold less"
        )
    clock = Clock()
    record = Record(clock)
    host = Host(clock, machine)
    line = _Line(scenario, clock, host, record)
    for number in range(machine.devices):
        device = Device(
            number, Lock(clock), Lock(clock), Room(clock, machine, profile), Lock(clock)
        )
        line.devices.append(device)
        for kept in (record.kernels, record.uploads, record.jobs):
            kept[number] = []
        for index in range(schedule.workers):
            worker = Worker(f"device {number} worker {index + 1}", device, scenario, host, record)
            clock.spawn(line.prove(worker))
    for index in range(schedule.preparers):
        clock.spawn(line.prepare(f"preparer {index + 1}"))
    clock.spawn(line.submit())
    clock.run()
    if len(record.sectors) != sectors_of(scenario):
        raise RuntimeError(f"{len(record.sectors)} sectors of {sectors_of(scenario)} ended")
    return Played(scenario, record, max(device.room.most_planned for device in line.devices))


@dataclass
class _Line:
    """From sectors to proofs."""

    scenario: Scenario
    clock: Clock
    host: Host
    record: Record
    devices: list[Device] = field(default_factory=list)
    in_flight: int = 0
    left: Counter[int] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        # never full: it holds no more than the sectors in flight
        self.read: Queue[_Item] = Queue(self.clock, MOST * MOST)
        self.prepared: Queue[_Item] = Queue(self.clock, self.scenario.schedule.queue)
        self.ended = Signal(self.clock)

    def submit(self) -> Process:
        """Begin a sector whenever fewer than allowed are in flight."""
        for sector in range(sectors_of(self.scenario)):
            while self.in_flight >= self.scenario.schedule.sectors_in_flight:
                yield self.ended.next
            self.in_flight += 1
            self.left[sector] = self.scenario.sector.partitions
            self.clock.spawn(self._read(sector))

    def _read(self, sector: int) -> Process:
        lane = f"reading {sector % self.scenario.schedule.sectors_in_flight + 1}"
        with self.record.span(lane, "read"):
            yield from self.host.work(self.scenario.sector.reading)
        for partition in range(self.scenario.sector.partitions):
            yield from self.read.put((sector, partition))

    def prepare(self, lane: str) -> Process:
        """One preparer, for ever."""
        while True:
            with self.record.wait("preparers", lane, "a sector"):
                item = yield from self.read.get()
            with self.record.span(lane, "prepare", self.record.prepared):
                yield from self.host.work(self.scenario.sector.preparation)
            with self.record.wait("preparers", lane, "a place in the queue"):
                yield from self.prepared.put(item)

    def prove(self, worker: Worker) -> Process:
        """One worker, for ever."""
        while True:
            with worker.waits("a partition"):
                sector, partition = yield from self.prepared.get()
            yield from worker.prove()
            self.record.partitions.append((sector, partition))
            self.left[sector] -= 1
            if not self.left[sector]:
                self.record.sectors.append(self.clock.now)
                self.in_flight -= 1
                self.ended.change()
