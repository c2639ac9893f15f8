"""What a run leaves to look at: its spans, gathered into stages. Knows no format."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from torchzk.scheduler.device_samples import (
    DeviceMemory as DeviceMemory,
)
from torchzk.scheduler.device_samples import (
    LevelSample,
    ProfiledWindow,
    VramSample,
)
from torchzk.scheduler.lanes import lane_of
from torchzk.timeline import Span


@dataclass(frozen=True)
class MemorySample:
    """Resident memory of the process, in bytes, at a moment of the host's monotonic clock."""

    time_ns: int
    rss: int


@dataclass(frozen=True)
class DeviceSpan:
    """What a device did for a span of the host."""

    of: Span
    """The host's."""
    span: Span
    """The device's: on a lane of its own, placed on the host's clock."""
    most: DeviceMemory
    """The most in use on the device in that time, by whomever."""

    @property
    def device(self) -> str:
        """The device's name."""
        return lane_of(self.span.lane).device or self.span.lane


@dataclass(frozen=True)
class Stage:
    """All spans of one name at one place of the nesting, on one lane."""

    lane: str
    path: tuple[str, ...]
    """Names of the enclosing spans, outermost first, and the stage's own."""
    spans: tuple[Span, ...]
    """In order of time."""

    @property
    def name(self) -> str:
        return self.path[-1]

    @property
    def depth(self) -> int:
        return len(self.path) - 1

    @property
    def seconds(self) -> float:
        return sum(span.seconds for span in self.spans)

    @property
    def failed(self) -> bool:
        return any(span.failed for span in self.spans)


@dataclass(frozen=True)
class RunRecord:
    """One run of a command, as the sinks get it."""

    title: str
    spans: tuple[Span, ...]
    samples: tuple[MemorySample, ...] = ()
    peak_rss: int = 0
    """Bytes."""
    facts: Mapping[str, str] = field(default_factory=dict)
    """What else there is to say: circuit, device, outcome."""
    device: tuple[DeviceSpan, ...] = ()
    """Of the spans that a device clock heard; none without a GPU."""
    planned: Mapping[str, int] = field(default_factory=dict)
    """Bytes of the device that a stage may take by the plan, by the stage's name."""
    vram: tuple[VramSample, ...] = ()
    """Of every device with a clock, in order of time."""
    levels: tuple[LevelSample, ...] = ()
    """What was reported, such as bytes promised to partitions."""
    profiled: tuple[ProfiledWindow, ...] = ()
    """Kernels one by one, where somebody asked for it."""

    @property
    def device_lanes(self) -> tuple[str, ...]:
        """Names of lanes of the device, in order of time."""
        ordered = sorted(self.device, key=lambda d: d.span.start_ns)
        return tuple(dict.fromkeys(d.span.lane for d in ordered))

    @property
    def all_spans(self) -> tuple[Span, ...]:
        """Those of the host, then those of the device."""
        return self.spans + tuple(d.span for d in self.device)

    @property
    def start_ns(self) -> int:
        return min((span.start_ns for span in self.spans), default=0)

    @property
    def seconds(self) -> float:
        """From the first span's start to the last one's end."""
        return (max((span.end_ns for span in self.spans), default=0) - self.start_ns) / 1e9

    def seconds_at(self, time_ns: int) -> float:
        """A moment, counted from the start of the run."""
        return (time_ns - self.start_ns) / 1e9


def stages_of(spans: Iterable[Span]) -> list[Stage]:
    """Spans as stages: lanes by their first start, on each a tree in order of first start.

    A span is inside another when that one's interval on the same lane contains its own.
    """
    ordered = sorted(spans, key=lambda s: (s.start_ns, -s.end_ns))
    lanes = {lane: i for i, lane in enumerate(dict.fromkeys(s.lane for s in ordered))}
    found: dict[tuple[str, tuple[str, ...]], list[Span]] = {}
    open_spans: dict[str, list[Span]] = {lane: [] for lane in lanes}
    for span in ordered:
        above = open_spans[span.lane]
        while above and not (span.start_ns < above[-1].end_ns and span.end_ns <= above[-1].end_ns):
            above.pop()
        above.append(span)
        found.setdefault((span.lane, tuple(s.name for s in above)), []).append(span)
    first = {key: i for i, key in enumerate(found)}

    def place(stage: Stage) -> tuple[int, list[int]]:
        prefixes = (stage.path[: i + 1] for i in range(len(stage.path)))
        return lanes[stage.lane], [first[stage.lane, prefix] for prefix in prefixes]

    return sorted((Stage(*key, tuple(group)) for key, group in found.items()), key=place)


@dataclass(frozen=True)
class StageUse:
    """A stage of a run, on all lanes of the host together, and what it took."""

    path: tuple[str, ...]
    times: int
    host_seconds: float
    device_seconds: float | None
    """None where no device clock heard it, as without a GPU."""
    most: DeviceMemory | None
    planned: int | None
    """Bytes of the device."""

    @property
    def name(self) -> str:
        return " / ".join(self.path)

    @property
    def depth(self) -> int:
        return len(self.path) - 1


def uses_of(record: RunRecord) -> list[StageUse]:
    """The stages of a run in order of first start, partitions together; workers have none."""
    on_device = {d.of: d for d in record.device}
    gathered: dict[tuple[str, ...], list[Span]] = {}
    work = [span for span in record.spans if not lane_of(span.lane).of_service]
    for stage in sorted(stages_of(work), key=lambda s: (s.spans[0].start_ns, s.depth)):
        gathered.setdefault(stage.path, []).extend(stage.spans)
    uses = []
    for path, spans in gathered.items():
        heard = [on_device[span] for span in spans if span in on_device]
        most = DeviceMemory(0, 0)
        for d in heard:
            most = most.at_least(d.most)
        uses.append(
            StageUse(
                path=path,
                times=len(spans),
                host_seconds=sum(span.seconds for span in spans),
                device_seconds=sum(d.span.seconds for d in heard) if heard else None,
                most=most if heard else None,
                planned=record.planned.get(path[-1]),
            )
        )
    return uses


def idle_seconds(device: Iterable[DeviceSpan]) -> float:
    """How long a device had nothing to do between stages, from the first to the last of them."""
    idle = end = 0
    for start, stop in sorted((d.span.start_ns, d.span.end_ns) for d in device):
        idle += max(start - end, 0) if end else 0
        end = max(end, stop)
    return idle / 1e9
