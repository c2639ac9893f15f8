"""What a simulation leaves: spans on lanes, and how long who waited for what."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from torchzk.scheduler.simulation.clock import Clock
from torchzk.timeline import Span

Interval = tuple[float, float]
"""Start and end, in seconds of simulated time."""


@dataclass(frozen=True)
class Wait:
    """One interval in which somebody could not go on."""

    who: str
    """`workers` or `preparers`."""
    what: str
    start: float
    end: float


@dataclass
class Record:
    """Everything that happened, in order of its end."""

    clock: Clock
    spans: list[Span] = field(default_factory=list)
    waits: list[Wait] = field(default_factory=list)
    kernels: dict[int, list[Interval]] = field(default_factory=dict)
    """By device."""
    uploads: dict[int, list[Interval]] = field(default_factory=dict)
    """By device."""
    jobs: dict[int, list[Interval]] = field(default_factory=dict)
    """By device: workers from taking a partition to giving it back."""
    prepared: list[Interval] = field(default_factory=list)
    """Preparers at work."""
    uploaded: int = 0
    """Bytes."""
    partitions: list[tuple[int, int]] = field(default_factory=list)
    """Sector and partition of what was finished."""
    sectors: list[float] = field(default_factory=list)
    """When each sector was finished."""

    @contextmanager
    def span(self, lane: str, name: str, kept: list[Interval] | None = None) -> Iterator[None]:
        """A span around the body, where that takes any time; its interval goes to `kept` too."""
        start = self.clock.now
        yield
        self._add(lane, name, start)
        if kept is not None and self.clock.now > start:
            kept.append((start, self.clock.now))

    @contextmanager
    def wait(self, who: str, lane: str, what: str) -> Iterator[None]:
        """A wait around the body, where there is any."""
        start = self.clock.now
        yield
        if self.clock.now > start:
            self.waits.append(Wait(who, what, start, self.clock.now))
            self._add(lane, f"wait for {what}", start)

    def _add(self, lane: str, name: str, start: float) -> None:
        if self.clock.now > start:
            self.spans.append(Span(lane, name, _nanos(start), _nanos(self.clock.now)))


def _nanos(seconds: float) -> int:
    return round(seconds * 1e9)


def merged(intervals: Iterable[Interval], window: Interval) -> float:
    """Seconds of the window in which at least one of the intervals runs."""
    total, reached = 0.0, window[0]
    for start, end in sorted(intervals):
        start, end = max(start, reached), min(end, window[1])
        if end > start:
            total += end - start
            reached = end
    return total


def overlap(start: float, end: float, window: Interval) -> float:
    """Seconds of an interval that fall into the window."""
    return max(0.0, min(end, window[1]) - max(start, window[0]))
