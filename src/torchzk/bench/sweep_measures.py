"""What a run of several sectors says of one setting: pace, busy, waits, memory, stages."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from torchzk.scheduler.device_tables import counts
from torchzk.scheduler.device_use import DeviceUse, device_uses, kernel_spans
from torchzk.scheduler.intervals import merged, total
from torchzk.scheduler.lanes import STATIONS, LaneKind, lane_of
from torchzk.scheduler.lock_use import lock_uses
from torchzk.scheduler.stages import RunRecord
from torchzk.timeline import Span

_STEPS = ("prepare", "admit", "stage", "compute", "finish")
_WAIT = "wait"
"""What names of stages begin with in which the device waits for a part of the key."""


@dataclass(frozen=True)
class Times:
    """Seconds, means over partitions or sectors: what a prediction is made of.

    Means, for a pace is made of all of them, slow ones included.
    """

    stages: dict[str, float]
    """A partition's kernels, by the device's clock where there is one."""
    steps: dict[str, float]
    """What a worker's steps took of the host."""
    stations: dict[str, float]
    """What is done once a sector."""
    ends: float | None = None
    """The first sector's reading and checking and the last one's finishing: nobody's kernels run
    beside these, and no interpreter is shared, so they are not means. Those stand in if None."""

    @property
    def between(self) -> float:
        """What the compute step takes besides its stages: handing over, waits, launches."""
        return max(0.0, self.steps.get("compute", 0.0) - sum(self.stages.values()))


def times_of(record: RunRecord) -> Times:
    """Means of what every partition and every sector took."""
    by_part: dict[tuple[str, str | None], dict[str, float]] = {}
    for kernel in kernel_spans(record):
        part = by_part.setdefault((kernel.host.lane, kernel.worker), {})
        name = kernel.host.name
        part[name] = part.get(name, 0.0) + (kernel.end_ns - kernel.start_ns) / 1e9
    names = dict.fromkeys(name for part in by_part.values() for name in part)
    stages = {
        name: statistics.fmean(part.get(name, 0.0) for part in by_part.values()) for name in names
    }
    workers = [s for s in record.spans if lane_of(s.lane).kind is LaneKind.WORKER]
    rest = [s for s in record.spans if lane_of(s.lane).kind is LaneKind.STATION]
    return Times(stages, _means(workers, _STEPS), _means(rest, STATIONS), _ends(rest))


def _ends(stations: Iterable[Span]) -> float:
    """Seconds in which the first sector waits for its kernels, and the last one after them."""
    found: dict[str, Span] = {}
    for span in sorted(stations, key=lambda s: s.start_ns):
        if not span.failed and (span.name not in found or span.name == STATIONS[-1]):
            found[span.name] = span
    return sum(found[name].seconds for name in STATIONS if name in found)


def times_in(row: Mapping[str, Any]) -> Times:
    """Those that a row was written with."""
    kinds = ("stages_ms", "steps_ms", "stations_ms")
    stages, steps, rest = ({n: ms / 1e3 for n, ms in row[kind].items()} for kind in kinds)
    ends = row.get("ends_ms")
    return Times(stages, steps, rest, None if ends is None else ends / 1e3)


def figures_of(record: RunRecord, start_ns: int, sectors: int, in_flight: int) -> dict[str, Any]:
    """A row's figures.

    Args:
        record: Of one setting alone.
        start_ns: When the first sector was handed in.
        sectors: How many went through.
        in_flight: How many at once.
    """
    ends = sorted(s.end_ns for s in record.spans if s.name == "finishing")
    seconds = (ends[-1] - start_ns) / 1e9 if ends else None
    uses = device_uses(record)
    times = times_of(record)
    return {
        "seconds": seconds,
        "seconds_a_proof": seconds / sectors if seconds is not None else None,
        "steady_seconds_a_proof": steady_pace([e / 1e9 for e in ends], in_flight),
        **_busy(uses),
        "locks": _locks(record),
        "stages_ms": {name: 1e3 * s for name, s in times.stages.items()},
        "steps_ms": {name: 1e3 * s for name, s in times.steps.items()},
        "stations_ms": {name: 1e3 * s for name, s in times.stations.items()},
        "ends_ms": None if times.ends is None else 1e3 * times.ends,
        "between_ms": 1e3 * times.between,
        **_uploads(record, uses),
        **_memory(record, uses),
    }


def steady_pace(ends: list[float], in_flight: int) -> float | None:
    """Seconds a proof once the pipeline is full and before it runs empty.

    From the end of sector `in_flight` on, the last `in_flight` ones left out; None where that
    leaves fewer than two sectors to measure between.
    """
    first, last = in_flight - 1, len(ends) - in_flight - 1
    if last - first < 1:
        return None
    return (ends[last] - ends[first]) / (last - first)


def _busy(uses: list[DeviceUse]) -> dict[str, Any]:
    if not uses:
        return {"busy": None, "busy_window_s": None, "busy_by_kernels": None, "clock": None}
    kernels = [use.profiled_busy for use in uses if use.profiled_busy is not None]
    alone = [use.copies_alone for use in uses if use.copies_alone is not None]
    meanwhile = [use.busy_while_profiled for use in uses if use.busy_while_profiled is not None]
    # of all devices: one that has nothing left to do while others work is not busy
    start, end = min(use.window[0] for use in uses), max(use.window[1] for use in uses)
    return {
        "busy": statistics.fmean(total(use.stages) for use in uses) / (end - start),
        "busy_window_s": (end - start) / 1e9,
        "busy_by_kernels": statistics.fmean(kernels) if kernels else None,
        "busy_while_profiled": statistics.fmean(meanwhile) if meanwhile else None,
        "copies_alone": statistics.fmean(alone) if alone else None,
        "clock": uses[0].clock,
    }


def _uploads(record: RunRecord, uses: list[DeviceUse]) -> dict[str, Any]:
    """How long devices waited for parts of the key, and the share of their windows that is."""
    waits = [d.span for d in record.device if d.of.name.startswith(_WAIT)]
    if not record.device:
        partitions = (s for s in record.spans if lane_of(s.lane).kind is LaneKind.PARTITION)
        waits = [s for s in partitions if s.name.startswith(_WAIT)]
    seconds = sum(s.seconds for s in waits)
    windows = sum(use.seconds for use in uses)
    return {
        "waited_for_key_s": seconds,
        "waited_for_key_share": seconds / windows if windows else None,
    }


def _locks(record: RunRecord) -> dict[str, dict[str, float]]:
    waits: dict[str, list[Span]] = {}
    for span in record.spans:
        if lane_of(span.lane).kind is LaneKind.WAITS:
            waits.setdefault(span.lane.removesuffix(" waits"), []).append(span)
    return {
        use.name: {
            "held_s": use.held_seconds,
            "waited_s": use.waited_seconds,
            "somebody_waited_s": total(
                merged((s.start_ns, s.end_ns) for s in waits.get(use.name, []))
            )
            / 1e9,
        }
        for use in lock_uses(record.spans)
    }


def _memory(record: RunRecord, uses: list[DeviceUse]) -> dict[str, Any]:
    found: dict[str, Any] = {"peak_bytes": None, "reserved_bytes": None}
    if record.vram:
        found["peak_bytes"] = max(sample.most.allocated for sample in record.vram)
        found["reserved_bytes"] = max(sample.most.reserved for sample in record.vram)
    promised = [s.value for s in record.levels if s.name.endswith(" promised")]
    found["most_promised_bytes"] = max(promised, default=0)
    found["planned_bytes"] = max(record.planned.values(), default=None)
    for use in uses:
        for name, n in counts(record, use.device).items():
            found[name.replace("torch's own ", "torch_").replace(" ", "_")] = n
    return found


def _means(spans: Iterable[Span], names: Iterable[str]) -> dict[str, float]:
    seconds: dict[str, list[float]] = {}
    for span in spans:
        if not span.failed:
            seconds.setdefault(span.name, []).append(span.seconds)
    return {name: statistics.fmean(seconds[name]) for name in names if name in seconds}
