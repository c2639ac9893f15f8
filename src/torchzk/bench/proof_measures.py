"""What was measured of proofs: from the spans of a run to the figures of a row."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from torchzk.bench.proof_cases import Target
from torchzk.scheduler.stages import DeviceMemory, RunRecord, idle_seconds, uses_of

Figures = dict[str, Any]
"""Part of a row, for JSON."""
PARTITION = "partition "
"""What lanes of partitions begin with."""


def since(record: RunRecord, first: int, lane: str = "") -> RunRecord:
    """The part of a record whose spans came after the first `first`, on lanes of that beginning."""
    spans = tuple(s for s in record.spans[first:] if s.lane.startswith(lane))
    kept = set(spans)
    return replace(record, spans=spans, device=tuple(d for d in record.device if d.of in kept))


def stages_ms(part: RunRecord) -> dict[str, float]:
    """Milliseconds a stage: of the device if there is one, or else of the host."""
    return {
        use.name: 1e3 * (use.host_seconds if use.device_seconds is None else use.device_seconds)
        for use in uses_of(part)
        if not use.depth
    }


def elapsed(part: RunRecord) -> float:
    """Seconds from the start of the first stage to the end of the last one.

    By the device's clock if there is one.
    """
    spans = [d.span for d in part.device] or part.spans
    if not spans:
        return 0.0
    return (max(s.end_ns for s in spans) - min(s.start_ns for s in spans)) / 1e9


def most_memory(part: RunRecord) -> DeviceMemory | None:
    """The most that was in use on the device; None without one."""
    most = None
    for d in part.device:
        most = d.most if most is None else most.at_least(d.most)
    return most


def times_of(runs: Sequence[RunRecord]) -> Figures:
    """Medians over runs of the same work: of the whole, of each stage, and of what lies between."""
    seconds = sorted(map(elapsed, runs))
    stages = [stages_ms(run) for run in runs]
    names = dict.fromkeys(name for run in stages for name in run)
    return {
        "p50_s": statistics.median(seconds),
        "runs_s": seconds,
        "clock": "device" if any(run.device for run in runs) else "host",
        "stages_ms": {n: statistics.median(run.get(n, 0.0) for run in stages) for n in names},
        "idle_ms": statistics.median(1e3 * idle_seconds(run.device) for run in runs),
    }


def memory_of(part: RunRecord, planned: dict[str, int]) -> Figures:
    """Peaks of the device, whole and by stage, beside the plan's; None without a device or plan."""
    most = most_memory(part)
    uses = [use for use in uses_of(part) if not use.depth and use.most is not None]
    plan = max(planned.values(), default=None)
    ratio = plan / most.allocated if plan is not None and most and most.allocated else None
    peaks = {use.name: use.most.allocated for use in uses if use.most}
    return {
        "peak_bytes": most.allocated if most else None,
        "reserved_bytes": most.reserved if most else None,
        "stages_peak_bytes": peaks,
        "planned_bytes": plan,
        "stages_planned_bytes": planned,
        "planned_over_peak": ratio,
        # each is wrong, whether or not it makes the peak
        "stages_over_plan": [n for n, peak in peaks.items() if peak > planned.get(n, peak)],
    }


def held_against(figure: float | None, target: Target) -> Figures:
    """A figure and what it may be; the verdicts are None where there is no figure or no wish."""

    def reaches(most: float | None) -> bool | None:
        if figure is None or most is None:
            return None
        return figure <= most and (target.least is None or figure >= target.least)

    return {
        "figure": figure,
        "must": target.must,
        "goal": target.goal,
        "reaches_must": reaches(target.must),
        "reaches_goal": reaches(target.goal),
    }


def slope(values: Sequence[float]) -> float:
    """Growth from the first to the last by the line of least squares, over their mean."""
    n = len(values)
    mean_x, mean_y = (n - 1) / 2, statistics.fmean(values)
    if n < 2 or not mean_y:
        return 0.0
    up = sum((x - mean_x) * (y - mean_y) for x, y in enumerate(values))
    across = sum((x - mean_x) ** 2 for x in range(n))
    return up / across * (n - 1) / mean_y
