"""A run as a trace that Perfetto (ui.perfetto.dev) and chrome://tracing open.

Source: "Trace Event Format", Google, 2016: complete events (X), counters (C), metadata (M).
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from torchzk.files import atomic_write
from torchzk.scheduler.device_use import device_uses, planned_over_time
from torchzk.scheduler.lanes import in_order
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
        values = {"MiB": sample.rss}
        events.append(_counter(_HOST, "resident memory", sample.time_ns - start, values))
    if record.device:
        events.append(_metadata("process_name", _DEVICE, 0, name="device"))
        # above the host's
        events.append(_metadata("process_sort_index", _DEVICE, 0, sort_index=-1))
        own = [d.span for d in record.device] + _profiled(record)
        events += _lanes(_DEVICE, own, start)
        # a step a stage: what it took at most, from its start on
        for d in sorted(record.device, key=lambda d: (d.span.start_ns, -d.span.end_ns)):
            at = d.span.start_ns - start
            events.append(_counter(_DEVICE, "peak memory", at, {"MiB": d.most.allocated}))
    events += _memory(record, start)
    return {"traceEvents": events, "displayTimeUnit": "ms", "otherData": _facts(record)}


def _facts(record: RunRecord) -> dict[str, str]:
    facts = dict(record.facts)
    for use in device_uses(record):
        facts[f"{use.device} busy, by stages"] = f"{use.busy:.4f}"
        if use.profiled_busy is not None:
            facts[f"{use.device} busy, by kernels"] = f"{use.profiled_busy:.4f}"
    return facts


def _profiled(record: RunRecord) -> list[Span]:
    """What CUPTI saw as spans, each as long as kernels follow each other."""
    return [
        Span(f"{window.device} kernels, profiled", what, *interval)
        for window in record.profiled
        for what, intervals in (("kernels", window.kernels), ("copies", window.copies))
        for interval in intervals
    ]


def _memory(record: RunRecord, start: int) -> list[dict[str, Any]]:
    """Memory of devices over time: in tensors, reserved, promised to partitions, by the plan."""
    events = []
    for sample in record.vram:
        values = {"allocated": sample.most.allocated, "reserved": sample.most.reserved}
        name = f"{sample.device} memory, MiB"
        events.append(_counter(_DEVICE, name, sample.time_ns - start, values))
    for level in record.levels:
        values = {"MiB": level.value}
        events.append(_counter(_DEVICE, level.name, level.time_ns - start, values))
    for use in device_uses(record):
        for interval, n_bytes in planned_over_time(record, use.device):
            for at, value in ((interval[0], n_bytes), (interval[1], 0)):
                name = f"{use.device} planned, MiB"
                events.append(_counter(_DEVICE, name, at - start, {"MiB": value}))
    return events


def _lanes(process: int, spans: Iterable[Span], start: int) -> list[dict[str, Any]]:
    """Spans as complete events on a thread a lane, or several where spans of a lane cross."""
    ordered = sorted(spans, key=lambda s: (s.start_ns, -s.end_ns))
    events: list[dict[str, Any]] = []
    thread = 0
    for lane in in_order(s.lane for s in ordered):
        for track in _tracks([s for s in ordered if s.lane == lane]):
            thread += 1
            events.append(_metadata("thread_name", process, thread, name=lane))
            events.append(_metadata("thread_sort_index", process, thread, sort_index=thread))
            events += [_complete(process, thread, span, start) for span in track]
    return sorted(events, key=lambda e: (e["ph"] == "X", e.get("ts", 0)))


def _tracks(spans: list[Span]) -> list[list[Span]]:
    """Spans in order, such that those of one track lie inside each other or apart.

    A viewer draws only such on one thread; several workers who wait for one lock cross.
    """
    tracks: list[list[Span]] = []
    ends: list[list[int]] = []
    for span in spans:
        for track, open_ends in zip(tracks, ends, strict=True):
            while open_ends and open_ends[-1] <= span.start_ns:
                open_ends.pop()
            if not open_ends or span.end_ns <= open_ends[-1]:
                track.append(span)
                open_ends.append(span.end_ns)
                break
        else:
            tracks.append([span])
            ends.append([span.end_ns])
    return tracks


def _complete(process: int, thread: int, span: Span, start: int) -> dict[str, Any]:
    return {
        "ph": "X",
        "name": span.name,
        "cat": "stage",
        "pid": process,
        "tid": thread,
        "ts": _micros(span.start_ns - start),
        "dur": _micros(span.end_ns - span.start_ns),
        "args": {"failed": True} if span.failed else {},
    }


def _counter(process: int, name: str, at_ns: int, n_bytes: dict[str, int]) -> dict[str, Any]:
    value = {series: round(n / 2**20, 1) for series, n in n_bytes.items()}
    ts = _micros(at_ns)
    return {"ph": "C", "name": name, "pid": process, "tid": 0, "ts": ts, "args": value}


def _metadata(what: str, process: int, thread: int, **args: str | int) -> dict[str, Any]:
    return {"ph": "M", "name": what, "pid": process, "tid": thread, "args": args}


def _micros(nanoseconds: int) -> float:
    return nanoseconds / 1000
