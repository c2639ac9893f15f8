"""What a lane's name says: of which device it is, and what is drawn on it; lanes in order."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum


class LaneKind(IntEnum):
    """Kinds of lanes in the order in which a device's are drawn; those of no device come last."""

    KERNELS = 0
    UPLOADS = 1
    LOCK = 2
    WAITS = 3
    """Who waits for a lock. Several may at once."""
    WORKER = 4
    HOST = 5
    """Everything else."""
    STATION = 6
    """A thread between two queues of a service."""
    PARTITION = 7
    """The stages of one partition of a job, on whatever device."""


STATIONS = ("reading", "checking", "finishing")
"""Of a service, in the order in which jobs come to them."""
_DEVICE = r"(?P<device>device \d+|[^\s,]+)"
_PATTERNS = (
    (LaneKind.LOCK, re.compile(_DEVICE + r" (?:mem|memory|compute) lock")),
    (LaneKind.WAITS, re.compile(_DEVICE + r" (?:mem|memory|compute) lock waits")),
    (LaneKind.WORKER, re.compile(_DEVICE + r" worker \d+")),
    (LaneKind.PARTITION, re.compile(r"(?:.+ )?partition \d+", re.DOTALL)),
    (LaneKind.STATION, re.compile(rf"(?:{'|'.join(STATIONS)}) \d+")),
    (LaneKind.UPLOADS, re.compile(_DEVICE + r" uploads")),
    # of a device clock: one a thread that launched
    (LaneKind.KERNELS, re.compile(r"(?P<device>cuda:\d+)(?: \(\d+\))?")),
    (LaneKind.KERNELS, re.compile(_DEVICE + r" kernels(?:, .+)?")),
)


@dataclass(frozen=True)
class Lane:
    """A lane by its name."""

    name: str
    kind: LaneKind
    device: str | None
    """None for lanes of the host."""

    @property
    def of_service(self) -> bool:
        """Whether its spans say who did what when, beside those that say what was done."""
        return self.of_lock or self.kind in (LaneKind.WORKER, LaneKind.STATION)

    @property
    def of_lock(self) -> bool:
        """Whether its spans are holds of a lock or waits for one, not work."""
        return self.kind in (LaneKind.LOCK, LaneKind.WAITS)


def lane_of(name: str) -> Lane:
    """The lane of a name, as locks, workers, device clocks and simulations give them."""
    for kind, pattern in _PATTERNS:
        match = pattern.fullmatch(name)
        if match:
            return Lane(name, kind, match.groupdict().get("device"))
    return Lane(name, LaneKind.HOST, None)


def in_order(names: Iterable[str]) -> list[str]:
    """Lanes as they are drawn: a device's after those of the one before, the host's at the end.

    Of a device first its kernels, then what is uploaded, the locks each with its waits, the
    workers. What is alike in this stays in the order given, numbers at the end by their value.
    """
    lanes = [lane_of(name) for name in dict.fromkeys(names)]
    devices = sorted({lane.device for lane in lanes if lane.device is not None}, key=_by_number)

    def place(lane: Lane) -> tuple[object, ...]:
        if lane.device is None:
            # stations in the order of a job's way, the rest in order of time
            station = lane.kind is LaneKind.STATION
            name = lane.name.partition(" ")[0]
            return (len(devices), not station, STATIONS.index(name) if station else 0)
        kind, name = lane.kind, lane.name.removesuffix(" waits")
        if lane.of_lock:
            # mem is had before compute
            return (
                devices.index(lane.device),
                LaneKind.LOCK,
                "compute" in name,
                (kind,),
            )
        return (devices.index(lane.device), kind, "", _by_number(name))

    return [lane.name for lane in sorted(lanes, key=place)]


def _by_number(name: str) -> tuple[str, int]:
    stem = name.rstrip("0123456789)")
    digits = re.findall(r"\d+", name[len(stem) :])
    return stem, int(digits[0]) if digits else -1


def promised(device: str) -> str:
    """The level of bytes that the plans of a device's partitions hold."""
    return f"{device} promised"
