"""Spans of workers and partitions as a service leaves them, at moments that are easy to add up."""

from __future__ import annotations

from torchzk.scheduler.device_samples import DeviceMemory
from torchzk.scheduler.stages import DeviceSpan
from torchzk.timeline import Span

MS = 1_000_000
NO_MEMORY = DeviceMemory(0, 0)


def span(lane: str, name: str, start: int, end: int) -> Span:
    return Span(lane, name, start * MS, end * MS)


def partition(k: int, device: str, worker: int, start: int) -> list[Span]:
    """100 ms of a worker: of them 90 under the lock, in which the device has 60 of stages."""
    own, lane = f"{device} worker {worker}", f"s partition {k}"
    return [
        span(own, "prepare", start - 30, start - 20),
        span(f"{device} mem lock waits", own, start - 20, start - 15),
        span(f"{device} mem lock", own, start - 15, start - 5),
        span(own, "stage", start - 15, start - 5),
        span(f"{device} compute lock waits", own, start - 5, start),
        span(f"{device} compute lock", own, start, start + 90),
        span(own, "compute", start, start + 90),
        # waits for its uploads, then stages, of which one has two inside
        span(lane, "wait for uploads", start, start + 10),
        span(lane, "witness", start + 10, start + 30),
        span(lane, "msm h", start + 30, start + 80),
        span(lane, "pieces", start + 35, start + 50),
        span(lane, "pieces", start + 55, start + 80),
        span(lane, "final sums", start + 92, start + 97),
        span(own, "finish", start + 90, start + 98),
    ]


def heard(spans: list[Span], device: str, late: int = 7) -> tuple[DeviceSpan, ...]:
    """What a clock says: all a little later than on the host."""
    lane, ns = f"{device} kernels, worker 0", late * MS
    return tuple(
        DeviceSpan(s, Span(lane, s.name, s.start_ns + ns, s.end_ns + ns), NO_MEMORY)
        for s in spans
        if "partition" in s.lane
    )
