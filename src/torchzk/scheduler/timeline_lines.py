"""A run as cuzk's `TIMELINE` lines, for scripts that read those.

`TIMELINE,<ms since the start>,<EVENT>,<job>,<detail>`: a line an event; of the detail's commas none
splits. Source: the lines that cuzk's engine prints. What differs: times are those of the device
where its clock heard the stages, `gpu_ms` is of kernels alone and counts no wait, and what could
forge a line in a job's name is written as `%2C`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from torchzk.scheduler.device_use import KernelSpan, kernel_spans
from torchzk.scheduler.intervals import merged, total
from torchzk.scheduler.lanes import LaneKind, lane_of
from torchzk.scheduler.stages import RunRecord
from torchzk.timeline import Span

_PARTITION = re.compile(r"(?:(?P<job>.+) )?partition (?P<index>\d+)", re.DOTALL)
_UNSAFE = re.compile(r"[%,\s\x00-\x1f\x7f]")


def timeline_lines(record: RunRecord) -> list[str]:
    """The lines of all partitions, in order of time.

    A worker takes a partition (`GPU_PICKUP`), prepares and stages it (`SYNTH_START`, `SYNTH_END`),
    waits for the compute lock (`GPU_QUEUE`) and has its kernels run (`GPU_START`, `GPU_END`).
    """
    events = [event for part in _parts(record) for event in part.events()]
    start = record.start_ns
    return [
        f"TIMELINE,{max(at - start, 0) // 1_000_000},{what},{part.job},{detail}"
        for at, _, what, part, detail in sorted(events, key=lambda e: (e[0], e[1]))
    ]


@dataclass
class _Part:
    job: str
    index: int
    worker: int
    kernels: list[KernelSpan] = field(default_factory=list)
    steps: dict[str, Span] = field(default_factory=dict)
    """Of the worker that did it, by their names; empty without workers."""

    def events(self) -> Iterator[tuple[int, int, str, _Part, str]]:
        """Moment, order among those of one moment, event, itself, detail."""
        intervals = merged(kernel.interval for kernel in self.kernels)
        start, end = intervals[0][0], intervals[-1][1]
        partition, worker = f"partition={self.index}", f"worker={self.worker}"
        before = [self.steps[name] for name in ("prepare", "stage") if name in self.steps]
        if before:
            first, last = before[0].start_ns, max(span.end_ns for span in before)
            synthesis = sum(span.end_ns - span.start_ns for span in before)
            yield first, 0, "GPU_PICKUP", self, f"{worker},{partition}"
            yield first, 1, "SYNTH_START", self, partition
            yield last, 2, "SYNTH_END", self, f"{partition},synth_ms={synthesis // 1_000_000}"
            yield last, 3, "GPU_QUEUE", self, partition
        yield start, 4, "GPU_START", self, f"{worker},{partition}"
        spent = total(intervals) // 1_000_000
        yield end, 5, "GPU_END", self, f"{worker},{partition},gpu_ms={spent}"


def _parts(record: RunRecord) -> list[_Part]:
    """Partitions that had kernels, each time one was proved."""
    computes = _steps(record)
    parts: dict[tuple[str, str | None, int], _Part] = {}
    for kernel in kernel_spans(record):
        match = _PARTITION.fullmatch(kernel.host.lane)
        if match is None:
            continue
        steps = _around(kernel, computes)
        compute = steps.get("compute")
        # a partition that failed on one device is done again by another worker
        key = (kernel.host.lane, kernel.worker, compute.start_ns if compute else 0)
        if key not in parts:
            parts[key] = _Part(
                _safe(match["job"] or record.title),
                int(match["index"]),
                _number(kernel.worker),
                steps=steps,
            )
        parts[key].kernels.append(kernel)
    return list(parts.values())


def _steps(record: RunRecord) -> dict[str, list[dict[str, Span]]]:
    """The steps of every worker, a mapping for each partition it did, in order."""
    found: dict[str, list[dict[str, Span]]] = {}
    for span in sorted(record.spans, key=lambda s: (s.start_ns, -s.end_ns)):
        if lane_of(span.lane).kind is LaneKind.WORKER:
            own = found.setdefault(span.lane, [])
            if span.name in ("prepare", "admit") and (not own or "compute" in own[-1]):
                own.append({})
            if own:
                own[-1].setdefault(span.name, span)
    return found


def _around(kernel: KernelSpan, steps: dict[str, list[dict[str, Span]]]) -> dict[str, Span]:
    for own in steps.get(kernel.worker or "", []):
        compute = own.get("compute")
        if compute and compute.start_ns <= kernel.host.start_ns <= compute.end_ns:
            return own
    return {}


def _number(worker: str | None) -> int:
    return int(worker.rpartition(" ")[2]) if worker else 0


def _safe(text: str) -> str:
    return _UNSAFE.sub(lambda m: f"%{ord(m[0]):02X}", text)
