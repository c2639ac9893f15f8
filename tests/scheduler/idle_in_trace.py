"""Where a device had nothing to do while every kernel was looked at, as a row of JSON a trace.

    PYTHONPATH=src:tests python tests/scheduler/idle_in_trace.py TRACE.json ...

A trace is that of a run with `--profile-kernels`. Milliseconds without a kernel are told by the
stage in which the device was then, each with the stage's own in the time that was looked at; what
is in no stage is `between`, and copies without a kernel beside them are apart.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from torchzk.scheduler.device_samples import Interval
from torchzk.scheduler.intervals import inside, merged, total

_STAGES = re.compile(r"cuda:0(?: \(\d+\)| kernels, worker \d+)?(?: \(\d+\))?")
_PROFILED = "cuda:0 kernels, profiled"
_OF_THE_HOST = "final sums"


def idle(trace: dict[str, Any]) -> dict[str, Any]:
    """The row of a trace: of the first device, from its first event that was seen to its last."""
    stages: list[tuple[Interval, str]] = []
    seen: dict[str, list[Interval]] = {"kernels": [], "copies": []}
    lanes = {
        (e["pid"], e["tid"]): e["args"]["name"]
        for e in trace["traceEvents"]
        if e.get("name") == "thread_name"
    }
    for event in trace["traceEvents"]:
        if event["ph"] != "X":
            continue
        lane, name = lanes[event["pid"], event["tid"]], event["name"]
        start = round(1e3 * event["ts"])
        interval = start, start + round(1e3 * event["dur"])
        if lane.startswith(_PROFILED):
            seen[name].append(interval)
        elif _STAGES.fullmatch(lane) and name != _OF_THE_HOST:
            stages.append((interval, name))
    kernels, everything = merged(seen["kernels"]), merged(seen["kernels"] + seen["copies"])
    window = everything[0][0], everything[-1][1]
    gaps = _between(everything)
    by_stage: dict[str, tuple[int, int]] = {}
    for name, own in _outermost(stages).items():
        looked = inside(merged(own), window)
        if looked:
            by_stage[name] = sum(total(inside(gaps, one)) for one in looked), total(looked)
    by_stage["between"] = (total(gaps) - sum(n for n, _ in by_stage.values()), 0)
    return {
        "what": "idle while every kernel was looked at",
        "looked_s": (window[1] - window[0]) / 1e9,
        "busy_by_kernels": total(kernels) / (window[1] - window[0]),
        "copies_alone_ms": (total(everything) - total(kernels)) / 1e6,
        "idle_ms": {name: n / 1e6 for name, (n, _) in by_stage.items()},
        "of_ms": {name: n / 1e6 for name, (_, n) in by_stage.items() if n},
    }


def _outermost(stages: list[tuple[Interval, str]]) -> dict[str, list[Interval]]:
    """By name; what lies inside another stage is told as that one's."""
    found: dict[str, list[Interval]] = {}
    end = 0
    for interval, name in sorted(stages, key=lambda s: (s[0][0], -s[0][1])):
        if interval[1] > end:
            found.setdefault(name, []).append(interval)
            end = interval[1]
    return found


def _between(intervals: Sequence[Interval]) -> list[Interval]:
    return [(a, b) for (_, a), (b, _) in pairwise(intervals)]


if __name__ == "__main__":
    for path in map(Path, sys.argv[1:]):
        print(json.dumps(idle(json.loads(path.read_text()))))
