"""How much memory a call takes at its peak, beside what was there before."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch.profiler import ProfilerActivity, profile


def peak_bytes(call: Callable[[], object], device: torch.device) -> int:
    """What torch allocates on `device` and has not freed yet, at most, while `call()` runs.

    On the CPU by its profiler, exactly; on CUDA with the ends of the allocator's blocks. The
    result of `call` counts.
    """
    if device.type == "cuda":
        # what others still free would count as the call's
        torch.cuda.synchronize(device)
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        call()
        torch.cuda.synchronize(device)
        return torch.cuda.max_memory_allocated(device) - before
    activities = [ProfilerActivity.CPU]
    # said, or older versions of torch warn that they keep one cycle
    with profile(activities=activities, profile_memory=True, acc_events=True) as profiler:
        call()
    assert profiler.profiler is not None and profiler.profiler.kineto_results is not None
    events = [e for e in profiler.profiler.kineto_results.events() if e.name() == "[memory]"]
    now = most = 0
    for event in sorted(events, key=lambda e: e.start_ns()):
        now += event.nbytes()
        most = max(most, now)
    return most
