"""Where the time of one call goes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from torchzk.bench.timing import synchronize

_SHOWN = 14


def slowest(call: Callable[[], Any], device: torch.device) -> list[tuple[str, float, int]]:
    """Name, seconds and count of the kernels that take longest; of torch's operations off CUDA."""
    cuda = device.type == "cuda"
    with profile(activities=[ProfilerActivity.CUDA if cuda else ProfilerActivity.CPU]) as record:
        call()
        # kernels that end later are not in the record
        synchronize(device)

    def seconds(event: Any) -> float:
        return float(event.device_time_total if cuda else event.self_cpu_time_total) / 1e6

    events = sorted(record.key_averages(), key=seconds, reverse=True)[:_SHOWN]
    return [(event.key, seconds(event), event.count) for event in events]
