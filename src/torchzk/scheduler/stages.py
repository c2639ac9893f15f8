"""What a run leaves to look at: its spans, gathered into stages. Knows no format."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from torchzk.timeline import Span


@dataclass(frozen=True)
class MemorySample:
    """Resident memory of the process, in bytes, at a moment of the host's monotonic clock."""

    time_ns: int
    rss: int


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
