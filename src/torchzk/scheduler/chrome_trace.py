"""A run as a trace that Perfetto (ui.perfetto.dev) and chrome://tracing open.

Source: "Trace Event Format", Google, 2016: complete events (X), counters (C), metadata (M).
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from torchzk.files import atomic_write
from torchzk.scheduler.stages import RunRecord
from torchzk.timeline import Span

_HOST, _DEVICE = 1, 2
"""Processes of the trace."""


def write_trace(record: RunRecord, path: Path) -> None:
    """Write `record` as trace JSON: a thread a lane, the device's apart, counters for memory."""
    with atomic_write(path) as file:
        file.write(json.dumps(trace(record), indent=1).encode())


def trace(record: RunRecord) -> dict[str, Any]:
    """The trace as a value; times are microseconds since the start of the run."""
    start = record.start_ns
    events = [_metadata("process_name", _HOST, 0, name=record.title)]
    events += _lanes(_HOST, record.spans, start)
    for sample in record.samples:
        events.append(_counter(_HOST, "resident memory", sample.time_ns - start, sample.rss))
    if record.device:
        events.append(_metadata("process_name", _DEVICE, 0, name="device"))
        events += _lanes(_DEVICE, [d.span for d in record.device], start)
        # a step a stage: what it took at most, from its start on
        for d in sorted(record.device, key=lambda d: (d.span.start_ns, -d.span.end_ns)):
            at = d.span.start_ns - start
            events.append(_counter(_DEVICE, "peak memory", at, d.most.allocated))
    return {"traceEvents": events, "displayTimeUnit": "ms", "otherData": dict(record.facts)}


def _lanes(process: int, spans: Iterable[Span], start: int) -> list[dict[str, Any]]:
    """Spans as complete events on a thread a lane; lanes by their first start."""
    ordered = sorted(spans, key=lambda s: (s.start_ns, -s.end_ns))
    threads = {lane: i + 1 for i, lane in enumerate(dict.fromkeys(s.lane for s in ordered))}
    events = []
    for lane, thread in threads.items():
        events.append(_metadata("thread_name", process, thread, name=lane))
        events.append(_metadata("thread_sort_index", process, thread, sort_index=thread))
    for span in ordered:
        events.append(
            {
                "ph": "X",
                "name": span.name,
                "cat": "stage",
                "pid": process,
                "tid": threads[span.lane],
                "ts": _micros(span.start_ns - start),
                "dur": _micros(span.end_ns - span.start_ns),
                "args": {"failed": True} if span.failed else {},
            }
        )
    return events


def _counter(process: int, name: str, at_ns: int, n_bytes: int) -> dict[str, Any]:
    value = {"MiB": round(n_bytes / 2**20, 1)}
    ts = _micros(at_ns)
    return {"ph": "C", "name": name, "pid": process, "tid": 0, "ts": ts, "args": value}


def _metadata(what: str, process: int, thread: int, **args: str | int) -> dict[str, Any]:
    return {"ph": "M", "name": what, "pid": process, "tid": thread, "args": args}


def _micros(nanoseconds: int) -> float:
    return nanoseconds / 1000
