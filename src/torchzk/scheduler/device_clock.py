"""What a device did for each span of the host: when, for how long, and in how much memory.

A span begins and ends with an event in the queue of the calling thread's stream, and nobody waits
for one before all is over. Device time of a span is from when the device came to its first work,
all work before it done, to when its last was done; a stage in which the device waits for the
host takes the host's time.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, replace
from typing import Any, Protocol

import torch

from torchzk.scheduler.device_samples import DeviceMemory, VramSample
from torchzk.scheduler.lanes import lane_of
from torchzk.scheduler.stages import DeviceSpan
from torchzk.timeline import Span, Timeline


class Moment(Protocol):
    """A place in the queue of a stream; `torch.cuda.Event` is one."""

    def synchronize(self) -> None:
        """Wait until the device has come to it."""

    def elapsed_time(self, other: Any) -> float:
        """Milliseconds from this to `other`, both past."""
        ...


class Gauge(Protocol):
    """What a clock asks of a device."""

    @property
    def lane(self) -> str:
        """The device's name."""
        ...

    def idle(self) -> None:
        """Wait for all of the device's work."""

    def mark(self) -> Moment:
        """A moment, queued on the current stream of the calling thread."""
        ...

    def most_memory(self) -> DeviceMemory:
        """The most in use since the last call; costs the device nothing."""
        ...


class CudaGauge:
    """A CUDA device, and torch's allocator on it."""

    def __init__(self, device: torch.device) -> None:
        self._device = device

    @property
    def lane(self) -> str:
        return str(self._device)

    def idle(self) -> None:
        # the device's and the host's clock are compared where nothing runs: twice a run, never
        # while a partition is proved
        torch.cuda.synchronize(self._device)

    def mark(self) -> Moment:
        event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        event.record(torch.cuda.current_stream(self._device))
        return event

    def most_memory(self) -> DeviceMemory:
        # the flat form of the same figures takes ten times as long to make
        stats = torch.cuda.memory_stats_as_nested_dict(self._device)
        torch.cuda.reset_peak_memory_stats(self._device)
        if not stats:
            # of a device that nobody has asked for memory
            return DeviceMemory(0, 0)
        allocated, reserved = (stats[f"{what}_bytes"]["all"] for what in ("allocated", "reserved"))
        return DeviceMemory(allocated["peak"], reserved["peak"], stats.get("num_alloc_retries", 0))


@dataclass
class _Open:
    name: str
    start: Moment
    root: Moment
    """Where the outermost span around it began, or itself."""
    most: DeviceMemory


@dataclass(frozen=True)
class _Closed:
    of: Span
    lane: str
    start: Moment
    end: Moment
    root: Moment
    most: DeviceMemory


class DeviceClock:
    """Listens to a timeline, from any thread; spans that were open before it came are left out."""

    def __init__(self, gauge: Gauge) -> None:
        """Wait for the device, once, and set its clock against the host's."""
        self._gauge = gauge
        self._lock = threading.Lock()
        self._open: dict[int, list[_Open]] = {}
        self._lanes: dict[int, str] = {}
        self._closed: list[_Closed] = []
        self._samples: list[VramSample] = []
        self._fault: str | None = None
        gauge.idle()
        before = time.perf_counter_ns()
        self._anchor = gauge.mark()
        self._anchor.synchronize()
        self._anchor_ns = (before + time.perf_counter_ns()) // 2
        gauge.most_memory()

    @property
    def watcher(self) -> Timeline:
        """What to hand to a timeline."""
        return Timeline(on_close=self.closed, on_open=self.opened)

    @property
    def fault(self) -> str | None:
        """Why the clock stopped, if the device no longer answers."""
        return self._fault

    def opened(self, name: str) -> None:
        """A span opens on the calling thread."""
        if self._fault is not None:
            return
        try:
            with self._lock:
                self._measure()
                above = self._open.setdefault(threading.get_ident(), [])
                start = self._gauge.mark()
                root = above[0].root if above else start
                above.append(_Open(name, start, root, DeviceMemory(0, 0)))
        except RuntimeError as e:
            self._stop(e)

    def closed(self, span: Span) -> None:
        """A span closes on the thread that opened it."""
        if self._fault is not None:
            return
        thread = threading.get_ident()
        try:
            with self._lock:
                above = self._open.get(thread)
                if not above or above[-1].name != span.name:
                    return
                self._measure()
                mine = above.pop()
                if lane_of(span.lane).of_lock:
                    # whoever waits or holds a lock does nothing by that
                    return
                end = self._gauge.mark()
                self._closed.append(
                    _Closed(span, self._lane(thread), mine.start, end, mine.root, mine.most)
                )
        except RuntimeError as e:
            self._stop(e)

    def take(self) -> tuple[DeviceSpan, ...]:
        """The spans closed since the last call, once the device has done them; waits for that.

        Empty for a device that no longer answers, whose `fault` then says why.
        """
        with self._lock:
            done, self._closed = self._closed, []
        if self._fault is not None:
            return ()
        try:
            for one in done:
                # of a thread that changed its stream meanwhile, one says nothing of the other
                for moment in (one.root, one.start, one.end):
                    moment.synchronize()
            return tuple(self._placed(one) for one in done)
        except RuntimeError as e:
            self._stop(e)
            return ()

    def take_samples(self) -> tuple[VramSample, ...]:
        """Its memory at the edges of spans since the last call, in order of time."""
        with self._lock:
            samples, self._samples = self._samples, []
        return tuple(samples)

    def _placed(self, one: _Closed) -> DeviceSpan:
        # milliseconds come as float32: of one that is far away, only the tree's root is asked
        root = self._anchor_ns + _nanoseconds(self._anchor, one.root)
        start = root + (_nanoseconds(one.root, one.start) if one.start is not one.root else 0)
        end = root + _nanoseconds(one.root, one.end)
        on_device = replace(one.of, lane=one.lane, start_ns=start, end_ns=max(end, start))
        return DeviceSpan(one.of, on_device, one.most)

    def _measure(self) -> None:
        """What was in use since the last edge of a span counts for every span that is open."""
        most = self._gauge.most_memory()
        self._samples.append(VramSample(time.perf_counter_ns(), self._gauge.lane, most))
        for spans in self._open.values():
            for span in spans:
                span.most = span.most.at_least(most)

    def _lane(self, thread: int) -> str:
        """The device's name; of which worker it is, or with a number for others after the first."""
        device, worker = self._gauge.lane, threading.current_thread().name
        if lane_of(worker).device == device:
            return f"{device} kernels, {worker.removeprefix(device).strip()}"
        n = len(self._lanes) + 1
        return self._lanes.setdefault(thread, self._gauge.lane + (f" ({n})" if n > 1 else ""))

    def _stop(self, e: RuntimeError) -> None:
        # a fault of the device is the proof's to report, and must not be hidden by a clock's
        self._fault = str(e).splitlines()[0] if str(e) else type(e).__name__


def clock_of(device: torch.device) -> DeviceClock | None:
    """A clock for a CUDA device; None for another, whose work is done when a span closes."""
    return DeviceClock(CudaGauge(device)) if device.type == "cuda" else None


def _nanoseconds(start: Moment, end: Moment) -> int:
    return round(start.elapsed_time(end) * 1e6)
