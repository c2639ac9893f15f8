"""What is simulated, as data: the stages of a partition, the machine, the schedule.

Figures a scenario may carry of somebody's measurement stand beside it, with their source.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from torchzk import strict_yaml
from torchzk.config import expanded, shipped_configs
from torchzk.errors import ConfigError
from torchzk.strict_yaml import ByteSize, Decimal, Seconds

PolicyName = Literal["whole", "kernels", "ahead", "two_locks"]
"""What the lock of a device covers: the whole partition; its kernels; its kernels, with uploads
started before it wherever there is room; the same behind a second lock for memory."""

MOST = 10_000
"""More workers, sectors or pieces than this are a slip of the pen."""


def _at_least_one(**counts: int) -> None:
    for name, count in counts.items():
        if not 1 <= count <= MOST:
            raise ConfigError(f"{name}: must be 1 to {MOST}, is {count}")


@dataclass(frozen=True, kw_only=True)
class HostWork:
    """Work of the CPU, as it takes when nothing else runs there."""

    seconds: Seconds = 0.0
    cores: int = 1
    """Cores it keeps busy."""


@dataclass(frozen=True, kw_only=True)
class Stage:
    """Kernels that run one after the other, and what they need."""

    name: str
    seconds: Seconds
    upload: ByteSize = 0
    """Bytes that must reach the device for it."""
    pieces: int = 1
    """Into how many equal pieces uploads and kernels are cut; a piece waits for its own upload."""
    holds: ByteSize = 0
    """Bytes of device memory while it runs, those of its uploads not counted."""

    def __post_init__(self) -> None:
        _at_least_one(pieces=self.pieces)


@dataclass(frozen=True, kw_only=True)
class Partition:
    """One partition on its way through a worker."""

    stages: tuple[Stage, ...]
    before: HostWork = HostWork()
    """Of its worker, before the kernels."""
    after: HostWork = HostWork()
    """Of its worker, after the kernels: final sums, assembling, verification."""
    allocation: Seconds = 0.0
    """What making room and buffers for the uploads takes, before the first of them."""

    def __post_init__(self) -> None:
        if not self.stages:
            raise ConfigError("stages: at least one stage of kernels is needed")
        names = [stage.name for stage in self.stages]
        if len(set(names)) < len(names):
            raise ConfigError(f"stages: names must differ, are {', '.join(names)}")


@dataclass(frozen=True, kw_only=True)
class Sector:
    """What a sector brings along."""

    partitions: int
    reading: HostWork = HostWork()
    """Once a sector, before any of its partitions: reading and checking the job."""
    preparation: HostWork = HostWork()
    """Once a partition, by a preparer: synthesis, where that is work of the host."""

    def __post_init__(self) -> None:
        _at_least_one(partitions=self.partitions)


@dataclass(frozen=True, kw_only=True)
class Machine:
    """Devices, all alike, and the host they share."""

    memory: ByteSize
    """Device memory a device may plan with: the budget."""
    devices: int = 1
    resident: ByteSize = 0
    """Bytes of it that keys and tables keep."""
    link: ByteSize = 0
    """Bytes a second that reach one device; needed where a stage uploads."""
    cores: int = 1
    contention: Decimal = 0.0
    """By how much every further piece of host work at the same time slows all of them: n at once
    take 1 + contention (n - 1) times as long, for they share memory bandwidth and caches."""

    def __post_init__(self) -> None:
        _at_least_one(devices=self.devices, cores=self.cores)
        if self.resident > self.memory:
            raise ConfigError("resident: more than memory")


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """What one is free to choose."""

    policy: PolicyName = "two_locks"
    workers: int = 1
    """Workers a device."""
    sectors_in_flight: int = 1
    preparers: int = 1
    queue: int = 2
    """Prepared partitions that may wait for a worker; a preparer with one more waits itself."""
    staging: ByteSize = 0
    """Device bytes a worker has for uploads not yet used; needed where a stage uploads."""
    allocation_waits: bool = False
    """Whether allocating waits for the kernels that run, as a device-wide synchronise does."""

    def __post_init__(self) -> None:
        _at_least_one(
            workers=self.workers,
            sectors_in_flight=self.sectors_in_flight,
            preparers=self.preparers,
            queue=self.queue,
        )


@dataclass(frozen=True, kw_only=True)
class Published:
    """Figures measured on the real thing, to compare with; 0 where there is none."""

    seconds_a_proof: Seconds = 0.0
    busy: Decimal = 0.0
    """Share of the time in which the device was busy, 0 to 1."""
    span: Literal["steady", "whole"] = "steady"
    """Whether it is of the steady state, or of a run with its start and its end."""
    busy_counts: Literal["kernels", "jobs"] = "kernels"
    """Whether busy counts kernels, or workers that have a job."""


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """The whole of `configs/simulate/*.yaml`."""

    title: str
    source: str
    """Where its numbers come from."""
    chosen: str
    """Which of them were fitted, or chosen where sources differ, and how; or `nothing`."""
    sector: Sector
    partition: Partition
    machine: Machine
    schedule: Schedule = Schedule()
    sectors: int = 0
    """Sectors that go through; 0 takes enough of them for a steady state."""
    published: Published = field(default_factory=Published)

    def __post_init__(self) -> None:
        for name, work in (
            ("sector.reading", self.sector.reading),
            ("sector.preparation", self.sector.preparation),
            ("partition.before", self.partition.before),
            ("partition.after", self.partition.after),
        ):
            if not 1 <= work.cores <= self.machine.cores:
                raise ConfigError(f"{name}.cores: must be 1 to machine.cores, is {work.cores}")
        if self.sectors > MOST:
            raise ConfigError(f"sectors: must be at most {MOST}, is {self.sectors}")
        largest = max(-(-stage.upload // stage.pieces) for stage in self.partition.stages)
        if largest and not self.machine.link:
            raise ConfigError("machine.link: missing, and stages upload")
        if largest > self.schedule.staging:
            raise ConfigError(
                f"schedule.staging: {self.schedule.staging} bytes are less than one piece of an "
                f"upload, {largest}; give more, or cut the stage into more pieces"
            )


def load_scenario(path_or_name: str | Path) -> Scenario:
    """Read a scenario strictly.

    Args:
        path_or_name: Looked up as given, then by name among the shipped ones.

    Raises:
        ConfigError: No such file, or the first fault in it with file, line and dotted key.
    """
    given = expanded(path_or_name)
    if given.is_file():
        return strict_yaml.read(Scenario, given)
    shipped = {path.stem: path for path in shipped_scenarios()}
    found = shipped.get(given.name.removesuffix(".yaml"))
    if found is None or given.parent != Path():
        near = difflib.get_close_matches(given.stem, shipped, n=1)
        hint = f"did you mean {near[0]}?" if near else f"shipped: {', '.join(shipped) or 'none'}"
        raise ConfigError(f"{given}: no such scenario; {hint}")
    return strict_yaml.read(Scenario, found)


def shipped_scenarios() -> list[Path]:
    """The scenarios that come with the package, by name."""
    folders = dict.fromkeys(path.parent / "simulate" for path in shipped_configs())
    return sorted(path for folder in folders for path in folder.glob("*.yaml"))
