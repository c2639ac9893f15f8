"""Intervals of time, merged and measured."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from torchzk.scheduler.device_samples import Interval


def merged(intervals: Iterable[Interval], slack: int = 0) -> tuple[Interval, ...]:
    """The union, in order of time.

    Args:
        intervals: In any order; empty ones are left out.
        slack: Gaps of so many nanoseconds at most are closed: for drawing, not for figures.
    """
    union: list[Interval] = []
    for start, end in sorted(i for i in intervals if i[1] > i[0]):
        if union and start <= union[-1][1] + slack:
            union[-1] = (union[-1][0], max(union[-1][1], end))
        else:
            union.append((start, end))
    return tuple(union)


def inside(intervals: Iterable[Interval], window: Interval) -> tuple[Interval, ...]:
    """What of each interval lies in the window."""
    cut = ((max(start, window[0]), min(end, window[1])) for start, end in intervals)
    return tuple((start, end) for start, end in cut if end > start)


def total(intervals: Iterable[Interval]) -> int:
    """Nanoseconds of intervals that do not overlap."""
    return sum(end - start for start, end in intervals)


def around(intervals: Sequence[Interval]) -> Interval | None:
    """From the first start to the last end; None of nothing."""
    if not intervals:
        return None
    return min(start for start, _ in intervals), max(end for _, end in intervals)
