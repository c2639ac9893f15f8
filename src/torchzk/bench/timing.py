"""Times of calls: by CUDA events on a CUDA device, by the host's clock elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

LEAST_RUNS = 7
_MOST_RUNS = 51
_SECONDS = 0.3
# a second call may capture what the first has run
_WARM_UPS = 2


@dataclass(frozen=True)
class Times:
    """What runs took, in seconds."""

    first_call: float
    """Compiling included, where this process had not called it before."""
    runs: tuple[float, ...]
    """In ascending order."""
    peak_bytes: int | None
    """Most memory of the device in use beside the inputs and the tables; None off CUDA."""

    def quantile(self, percent: int) -> float:
        """The time that `percent` in a hundred runs were not above, by the nearest rank."""
        return self.runs[max(-(-percent * len(self.runs) // 100) - 1, 0)]


@dataclass(frozen=True)
class Timed:
    """Times, and the results of the first call and of the last run, which are to be judged."""

    times: Times
    right: bool


def measure(
    call: Callable[[], Any],
    is_right: Callable[[Any], bool],
    device: torch.device,
    runs: int | None,
    advance: Callable[[float], None],
) -> Timed:
    """Call once, judge the result, warm up, time `runs` calls, and judge the last result.

    Args:
        call: Returns its result; on CUDA it may return before that is computed.
        is_right: Judges a result.
        device: Where it runs.
        runs: How many times are taken; 7 or, of short calls, more if None.
        advance: Is told the fraction of the runs that are done.
    """
    start = time.perf_counter()
    result = call()
    synchronize(device)
    first = time.perf_counter() - start
    right = is_right(result)
    del result
    if device.type == "cuda":
        # of what is cached, only what the calls use themselves shall count
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
    warm_ups = _WARM_UPS if device.type == "cuda" else 1
    one = min(_timed(call, device)[0] for _ in range(warm_ups))
    count = runs or min(max(LEAST_RUNS, int(_SECONDS / max(one, 1e-9))), _MOST_RUNS)
    taken: list[float] = []
    for k in range(count):
        # one result at a time
        result = None
        seconds, result = _timed(call, device)
        taken.append(seconds)
        advance((k + 1) / count)
    peak = None
    if device.type == "cuda":
        peak = torch.cuda.max_memory_allocated(device) - before
    right = is_right(result) and right
    return Timed(Times(first, tuple(sorted(taken)), peak), right)


def _timed(call: Callable[[], Any], device: torch.device) -> tuple[float, Any]:
    if device.type != "cuda":
        start = time.perf_counter()
        result = call()
        return time.perf_counter() - start, result
    with torch.cuda.device(device):
        begin = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        end = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        synchronize(device)
        begin.record()
        result = call()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) / 1e3, result


def synchronize(device: torch.device) -> None:
    """Wait for all of a device's streams: nothing else may run beside what is timed or counted."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
