"""Every kernel of a device for a short time, as CUPTI sees them through `torch.profiler`.

Stages by events count the gaps inside a stage, in which the device waits for the host, as busy.
Kernels one by one do not. To look costs: CUPTI writes a record a kernel, launches take longer, and
when it stops, the thread that looked waits for the device. So it is done for seconds, when asked.

The first profile of a process costs more: torch imports hundreds of modules of its compiler for it,
and CUPTI comes to the process. Beside workers, who launch kernels, that held them up for seconds,
so it is done before they begin (`KernelWatch.attach`).
"""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Callable, Iterable
from typing import Any

from torch._C._autograd import DeviceType
from torch.profiler import ProfilerActivity, profile, supported_activities

from torchzk.scheduler.device_samples import Interval, ProfiledWindow
from torchzk.scheduler.intervals import inside, merged
from torchzk.timeline import Timeline

FIRST_STAGE = "witness"
"""The first stage of a partition's kernels."""
_COPIES = ("Memcpy", "Memset")
_KERNELS = ("kernel", "concurrent_kernel")
_PATIENCE = 30.0
"""Seconds to wait for the profiler's last word."""

Look = Callable[[float, threading.Event], list[ProfiledWindow]]
"""Looks for so many seconds, or until the event is set."""


class KernelWatch:
    """Looks once, from the start of some partition on, in a thread of its own.

    `attach` comes first, before there are workers.
    """

    def __init__(
        self,
        seconds: float,
        warn: Callable[[str], None],
        *,
        skipped: int = 2,
        look: Look | None = None,
        attach: Callable[[], None] | None = None,
    ) -> None:
        """Args:
        seconds: How long.
        warn: Told of what went wrong; no proof fails for it.
        skipped: Partitions that are begun before: the first compiles and loads, the second
            captures what it launches.
        look: Instead of torch's profiler.
        attach: Instead of `attach_profiler`.
        """
        self._seconds, self._warn = seconds, warn
        self._look = look or look_at_kernels
        self._attach = attach or attach_profiler
        self._left = skipped
        self._guard = threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._found: list[ProfiledWindow] = []

    def attach(self) -> None:
        """Do what the first profile of a process costs, in the calling thread."""
        try:
            self._attach()
        except Exception as e:
            # what cannot begin is not tried again beside the workers
            self._stop.set()
            self._warn_of(e)

    @property
    def watcher(self) -> Timeline:
        """What to hand to a timeline."""
        return Timeline(on_open=self.opened)

    def opened(self, name: str) -> None:
        """A span opens; with the first stage of the right partition the time begins."""
        if name != FIRST_STAGE:
            return
        with self._guard:
            self._left -= 1
            if self._left >= 0 or self._stop.is_set() or self._thread is not None:
                return
            self._thread = threading.Thread(target=self._run, name="kernel watch", daemon=True)
        self._thread.start()

    def take(self) -> tuple[ProfiledWindow, ...]:
        """What was seen; ends the time if it has not ended yet."""
        if self._thread is None:
            if not self._stop.is_set():
                self._stop.set()
                self._warn("no kernels were profiled: too few partitions were begun")
            return ()
        self._stop.set()
        self._thread.join(_PATIENCE)
        if self._thread.is_alive():
            self._warn(f"the profiler has not ended after {_PATIENCE:.0f} s, it is given up")
            return ()
        return tuple(self._found)

    def _run(self) -> None:
        try:
            self._found = self._look(self._seconds, self._stop)
        except Exception as e:
            self._warn_of(e)
            return
        if not any(window.n_kernels for window in self._found):
            self._warn("the profiler saw no kernels: none ran, or CUPTI is not allowed to look")

    def _warn_of(self, error: Exception) -> None:
        self._warn(f"kernels could not be profiled: {type(error).__name__}: {error}")


def attach_profiler() -> None:
    """Profile nothing, so that the next profile begins at once; seconds, the first time.

    In the main thread, where torch has registered itself with its profiler.

    Raises:
        RuntimeError: As `look_at_kernels`.
    """
    with warnings.catch_warnings():
        # of cycles, which there are none of
        warnings.simplefilter("ignore", UserWarning)
        look_at_kernels(0.0, threading.Event())


def look_at_kernels(seconds: float, stop: threading.Event) -> list[ProfiledWindow]:
    """Kernels of all streams of all devices of this process, for so many seconds.

    Raises:
        RuntimeError: This build of torch cannot see kernels, or CUPTI refuses.
    """
    if ProfilerActivity.CUDA not in supported_activities():  # type: ignore[no-untyped-call]
        raise RuntimeError("this build of torch has no CUPTI")
    with profile(activities=[ProfilerActivity.CUDA]) as record:
        start = time.perf_counter_ns()
        stop.wait(seconds)
        end = time.perf_counter_ns()
    # the profiler counts from 1970
    since_1970 = time.time_ns() - time.perf_counter_ns()
    assert record.profiler is not None and record.profiler.kineto_results is not None
    events = record.profiler.kineto_results.events()
    return windows_of(events, (start, end), since_1970)


def windows_of(events: Iterable[Any], window: Interval, since_1970: int) -> list[ProfiledWindow]:
    """Events of the profiler as a window a device.

    Args:
        events: `torch._C._autograd._KinetoEvent`.
        window: When it looked, on the host's monotonic clock.
        since_1970: That clock's zero, in nanoseconds since 1970.
    """
    kernels: dict[int, list[Interval]] = {}
    copies: dict[int, list[Interval]] = {}
    for event in events:
        if event.device_type() != DeviceType.CUDA:
            continue
        start = event.start_ns() - since_1970
        copied = event.name().startswith(_COPIES)
        if not copied and _kind(event) not in _KERNELS:
            # ranges that somebody named, waits for events
            continue
        found = copies if copied else kernels
        found.setdefault(event.device_index(), []).append((start, start + event.duration_ns()))
    return [
        ProfiledWindow(
            f"cuda:{index}",
            window,
            merged(inside(kernels.get(index, []), window)),
            merged(inside(copies.get(index, []), window)),
            len(inside(kernels.get(index, []), window)),
        )
        for index in sorted(kernels.keys() | copies.keys())
    ]


def _kind(event: Any) -> str:
    """What kind of event it is; torch before 2.12 may not say, and has but kernels left then."""
    return str(event.activity_type()) if hasattr(event, "activity_type") else _KERNELS[0]
