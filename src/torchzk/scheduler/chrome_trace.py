"""A run as a trace that Perfetto (ui.perfetto.dev) and chrome://tracing open.

Source: "Trace Event Format", Google, 2016: complete events (X), counters (C), metadata (M).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from torchzk.files import atomic_write
from torchzk.scheduler.stages import RunRecord

_PROCESS = 1


def write_trace(record: RunRecord, path: Path) -> None:
    """Write `record` as trace JSON: a thread a lane, a counter for memory."""
    with atomic_write(path) as file:
        file.write(json.dumps(trace(record), indent=1).encode())


def trace(record: RunRecord) -> dict[str, Any]:
    """The trace as a value; times are microseconds since the start of the run."""
    lanes = dict.fromkeys(s.lane for s in sorted(record.spans, key=lambda s: s.start_ns))
    threads = {lane: i + 1 for i, lane in enumerate(lanes)}
    events = [_metadata("process_name", 0, name=record.title)]
    for lane, thread in threads.items():
        events.append(_metadata("thread_name", thread, name=lane))
        events.append(_metadata("thread_sort_index", thread, sort_index=thread))
    for span in sorted(record.spans, key=lambda s: (s.start_ns, -s.end_ns)):
        events.append(
            {
                "ph": "X",
                "name": span.name,
                "cat": "stage",
                "pid": _PROCESS,
                "tid": threads[span.lane],
                "ts": _micros(span.start_ns - record.start_ns),
                "dur": _micros(span.end_ns - span.start_ns),
                "args": {"failed": True} if span.failed else {},
            }
        )
    for sample in record.samples:
        events.append(
            {
                "ph": "C",
                "name": "resident memory",
                "pid": _PROCESS,
                "tid": 0,
                "ts": _micros(sample.time_ns - record.start_ns),
                "args": {"MiB": round(sample.rss / 2**20, 1)},
            }
        )
    return {"traceEvents": events, "displayTimeUnit": "ms", "otherData": dict(record.facts)}


def _metadata(what: str, thread: int, **args: str | int) -> dict[str, Any]:
    return {"ph": "M", "name": what, "pid": _PROCESS, "tid": thread, "args": args}


def _micros(nanoseconds: int) -> float:
    return nanoseconds / 1000
