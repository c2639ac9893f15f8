"""Spans on named lanes. Knows no sink and no device: it is handed both."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Span:
    """One closed interval on a lane, in nanoseconds of the host's monotonic clock."""

    lane: str
    name: str
    start_ns: int
    end_ns: int
    failed: bool = False

    @property
    def seconds(self) -> float:
        return (self.end_ns - self.start_ns) / 1e9


def _nothing(*_: object) -> None:
    """The listener of a timeline nobody looks at."""


@dataclass(frozen=True)
class Timeline:
    """Tells its listeners when a span opens and when it closes. Passed down, never looked up.

    A span measures the host. Kernel time on a device comes from CUDA events and gets its own lane.
    """

    on_close: Callable[[Span], None] = _nothing
    on_open: Callable[[str], None] = _nothing
    """Gets the span's name as it opens, for a progress display."""
    on_advance: Callable[[float], None] = _nothing
    """Gets the fraction done, 0 to 1, of the innermost open span."""
    on_level: Callable[[str, int], None] = _nothing
    """Gets the name of something that is counted, and how much of it there is from now on."""
    lane: str = "host"
    """Where spans are drawn."""
    behind: Timeline | None = None
    """Hears of spans of workers, locks and queues, which say how the work was spread and not what
    it was; by default those hear of them who hear of all others."""

    def on_lane(self, lane: str) -> Timeline:
        """The same timeline for spans of another lane."""
        return replace(self, lane=lane)

    @property
    def backstage(self) -> Timeline:
        """The timeline for spans of workers, locks and queues."""
        return self.behind or self

    @contextmanager
    def span(self, name: str) -> Iterator[None]:
        """Time the body as one span; closed, and marked as failed, when the body raises."""
        start = time.perf_counter_ns()
        self.on_open(name)
        failed = True
        try:
            yield
            failed = False
        finally:
            self.on_close(Span(self.lane, name, start, time.perf_counter_ns(), failed))

    def advance(self, fraction: float) -> None:
        """Report how much of the innermost open span is done, from 0 to 1."""
        self.on_advance(fraction)

    def level(self, name: str, value: int) -> None:
        """Report how much of something there is from now on, as bytes promised; must not wait."""
        self.on_level(name, value)
