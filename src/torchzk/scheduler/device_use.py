"""How busy devices were: kernels merged over workers, in the time from the first to the last.

What counts is the innermost spans of a partition, on its own lane or in a worker's `compute`, by
the device's own clock: from when it came to a stage's first work to when its last was done. A stage
around others counts only by those; locks, waits, uploads and steps of the host do not count. Where
the device waits for the host within an innermost stage, that is counted: stages are all that is
known. What CUPTI saw of every kernel (`ProfiledWindow`) has no such gaps, and is told beside it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from torchzk.scheduler.device_samples import Interval, ProfiledWindow
from torchzk.scheduler.intervals import around, inside, merged, total
from torchzk.scheduler.lanes import Lane, LaneKind, lane_of
from torchzk.scheduler.stages import RunRecord
from torchzk.timeline import Span

COMPUTE = "compute"
"""The step of a worker that has kernels."""
_OF_THE_HOST = ("final sums", "verify", "trim", "evict")
_WAIT = "wait"
"""What names of spans begin with in which nothing but a wait is done."""


@dataclass(frozen=True)
class KernelSpan:
    """An innermost stage of kernels, on a device."""

    device: str
    host: Span
    """Its lane is the worker's or the partition's."""
    worker: str | None
    """The lane of the worker that did it; None without workers."""
    start_ns: int
    end_ns: int
    """By the device's clock where there is one."""

    @property
    def interval(self) -> Interval:
        return self.start_ns, self.end_ns


@dataclass(frozen=True)
class DeviceUse:
    """What a device did in a run."""

    device: str
    clock: str
    """`device`: its own, by events; `host`: that of the processor, which does its own work."""
    stages: tuple[Interval, ...]
    """Innermost stages of kernels, merged."""
    window: Interval
    """From the first kernels' start to the last ones' end."""
    workers: int
    profiled: ProfiledWindow | None = None

    @property
    def seconds(self) -> float:
        """Of the window."""
        return (self.window[1] - self.window[0]) / 1e9

    @property
    def busy(self) -> float:
        """Share of the window in which a stage of kernels ran, 0 to 1."""
        return _share(self.stages, self.window)

    @property
    def profiled_busy(self) -> float | None:
        """Share of the profiled window in which a kernel ran; None where nobody looked."""
        return None if self.profiled is None else _share(self.profiled.kernels, self._looked)

    @property
    def copies_alone(self) -> float | None:
        """Share of the profiled window in which something was copied and no kernel ran.

        Where a key comes from the host, that is what waiting for it costs.
        """
        if self.profiled is None or self.profiled_busy is None:
            return None
        either = merged((*self.profiled.kernels, *self.profiled.copies))
        return _share(either, self._looked) - self.profiled_busy

    @property
    def busy_while_profiled(self) -> float | None:
        """What stages say of that same window, to compare."""
        return None if self.profiled is None else _share(self.stages, self._looked)

    @property
    def _looked(self) -> Interval:
        """The profiled window, as far as there were partitions in it."""
        assert self.profiled is not None
        start, end = self.profiled.window
        return max(start, self.window[0]), min(end, self.window[1])


def device_uses(record: RunRecord) -> list[DeviceUse]:
    """Every device that had kernels, by name."""
    found: dict[str, list[KernelSpan]] = {}
    for span in kernel_spans(record):
        found.setdefault(span.device, []).append(span)
    profiled = {p.device: p for p in record.profiled}
    uses = []
    for device, spans in sorted(found.items()):
        union = merged(span.interval for span in spans)
        window = around(union)
        if window is not None:
            lanes = {s.worker for s in spans}
            clock = "device" if any(d.device == device for d in record.device) else "host"
            uses.append(
                DeviceUse(device, clock, union, window, max(len(lanes), 1), profiled.get(device))
            )
    return uses


def kernel_spans(record: RunRecord) -> list[KernelSpan]:
    """The innermost stages of kernels, in order of their start."""
    on_device = {d.of: d for d in record.device}
    clocked = {d.device for d in record.device}
    computes = _computes(record)
    found = []
    for lane, spans in _by_lane(record.spans).items():
        for span in _innermost(lane, spans):
            heard = on_device.get(span)
            device = heard.device if heard is not None else None
            worker = lane.name if lane.kind is LaneKind.WORKER else None
            worker = worker or _worker(span, computes, device)
            device = device or lane_of(worker or "").device or "cpu"
            if heard is not None:
                at = heard.span
                found.append(KernelSpan(device, span, worker, at.start_ns, at.end_ns))
            elif not clocked:
                # the host's processor: what it works on is done when the span closes
                found.append(KernelSpan(device, span, worker, span.start_ns, span.end_ns))
    for span in record.spans:
        lane = lane_of(span.lane)
        if lane.kind is LaneKind.KERNELS and lane.device is not None:
            # of a simulation, which has no other clock
            found.append(KernelSpan(lane.device, span, None, span.start_ns, span.end_ns))
    return sorted(found, key=lambda k: (k.start_ns, k.end_ns))


def _computes(record: RunRecord) -> dict[str, list[Span]]:
    """What workers of each device did under its compute lock, in order."""
    found: dict[str, list[Span]] = {}
    for span in sorted(record.spans, key=lambda s: s.start_ns):
        lane = lane_of(span.lane)
        if lane.kind is LaneKind.WORKER and lane.device and is_compute(span.name):
            found.setdefault(lane.device, []).append(span)
    return found


def _worker(span: Span, computes: dict[str, list[Span]], device: str | None) -> str | None:
    """Whose `compute` a stage lies in. Of one device only one worker computes at a time."""
    for of, own in computes.items():
        i = bisect_right(own, span.start_ns, key=lambda s: s.start_ns)
        if device in (None, of) and i and span.end_ns <= own[i - 1].end_ns:
            return own[i - 1].lane
    return None


def count(record: RunRecord, name: str, device: str | None = None) -> int:
    """How often something was done that leaves a span of that name, as `trim` or `evict`."""
    return sum(
        span.name == name and device in (None, lane_of(span.lane).device) for span in record.spans
    )


def planned_over_time(record: RunRecord, device: str) -> list[tuple[Interval, int]]:
    """Bytes that the plan has for the stage that runs, the key included, and when."""
    return [
        (kernel.interval, record.planned[kernel.host.name])
        for kernel in kernel_spans(record)
        if kernel.device == device and kernel.host.name in record.planned
    ]


def retries(record: RunRecord, device: str) -> int:
    """How often torch itself emptied its cache for want of room during the run."""
    seen = [sample.most.retries for sample in record.vram if sample.device == device]
    return seen[-1] - seen[0] if seen else 0


def _by_lane(spans: Iterable[Span]) -> dict[Lane, list[Span]]:
    lanes: dict[Lane, list[Span]] = {}
    for span in sorted(spans, key=lambda s: (s.start_ns, -s.end_ns)):
        lane = lane_of(span.lane)
        if lane.kind in (LaneKind.WORKER, LaneKind.PARTITION):
            lanes.setdefault(lane, []).append(span)
    return lanes


def _innermost(lane: Lane, spans: list[Span]) -> Iterator[Span]:
    """Of spans of one lane in order, those of kernels that have no other inside."""
    above: list[Span] = []
    for i, span in enumerate(spans):
        while above and not _within(span, above[-1]):
            above.pop()
        above.append(span)
        has_inner = i + 1 < len(spans) and _within(spans[i + 1], span)
        # a step by itself says nothing of kernels, only the stages in it do
        step = any(is_compute(s.name) for s in above[:-1])
        computes = lane.kind is not LaneKind.WORKER or step
        of_kernels = span.name not in _OF_THE_HOST and not span.name.startswith(_WAIT)
        if computes and of_kernels and not has_inner:
            yield span


def is_compute(name: str) -> bool:
    """Whether a span of a worker is the step that has kernels, whatever else its name says."""
    return name.partition(" ")[0] == COMPUTE


def _within(inner: Span, outer: Span) -> bool:
    return inner.start_ns < outer.end_ns and inner.end_ns <= outer.end_ns


def _share(intervals: Iterable[Interval], window: Interval) -> float:
    length = window[1] - window[0]
    return total(inside(intervals, window)) / length if length > 0 else 0.0
