"""Launches beside the current stream: on a second one, from a fork to a join.

Nobody tells the allocator of the second stream. From the join on the current stream is behind both,
so that memory which goes by the order of the current one may be given away. Hence whoever forks
joins before it lets go of a tensor, and allocates nothing in `beside`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from torchzk.triton_kernels.launch import NOTING

# by device and stream, the one beside it
_SIDES: dict[tuple[torch.device, int], torch.cuda.Stream] = {}


def fork(device: torch.device) -> int | None:
    """From now on the stream of `beside` may go on as the current one does; that stream, on CUDA.

    A stream has one beside it for good, and not one for all: they would wait for each other. While
    the current stream is captured, so is that one, up to the join.
    """
    if NOTING.log is not None:
        NOTING.log.append("fork")
    if device.type != "cuda":
        return None
    current = torch.cuda.current_stream(device)
    side = _SIDES.get((device, current.cuda_stream))
    if side is None:
        # with another priority one of them would wait for the other's blocks
        side = torch.cuda.Stream(device, priority=current.priority)
        # of two threads that are first both get the same one
        side = _SIDES.setdefault((device, current.cuda_stream), side)
    side.wait_stream(current)
    handle: int = side.cuda_stream
    return handle


def join(device: torch.device) -> None:
    """The current stream, which was forked, waits for what was launched in `beside`."""
    if NOTING.log is not None:
        NOTING.log.append("join")
    if device.type == "cuda":
        current = torch.cuda.current_stream(device)
        current.wait_stream(_SIDES[device, current.cuda_stream])


@contextmanager
def beside(device: torch.device) -> Iterator[None]:
    """Launch beside the current stream, after `fork` and before `join`."""
    NOTING.is_beside = True
    try:
        if device.type == "cuda":
            side = _SIDES[device, torch.cuda.current_stream(device).cuda_stream]
            with torch.cuda.stream(side):
                yield
        else:
            yield
    finally:
        NOTING.is_beside = False
