"""Work beside the current stream: where it runs, what waits for what, and what it is cut in."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cache
from typing import Protocol

import torch

from torchzk.errors import LayoutError

Piece = tuple[int, int, torch.Tensor]
"""Points of a query: the first, the one after the last, and their rows."""


@dataclass(frozen=True)
class Part:
    """Points `start` to `stop` of a query."""

    query: str
    start: int
    stop: int


class Parts(Protocol):
    """Parts of a key in an order that was given before, wherever they come from."""

    @property
    def here(self) -> bool:
        """Whether all lie on the device, so that nobody waits for one."""
        ...

    def widen(self, slots: int) -> None:
        """Let so many parts be on the device at a time from now on, if they were fewer."""

    def take(self) -> torch.Tensor:
        """Rows of the next part, good for the current stream until the next call."""
        ...


Fill = Callable[[torch.Tensor, int, int], None]
"""Starts writing rows `start` to `stop` into the tensor, on the current stream.

May return before they are written, but not before it has seen all that may go wrong.
"""


def steps(n: int, step: int) -> Iterator[tuple[int, int]]:
    """0 to `n` in ranges of `step`, the last of them shorter; raises `LayoutError`."""
    if step < 1:
        raise LayoutError(f"pieces have at least one point, got {step}")
    return ((start, min(start + step, n)) for start in range(0, n, step))


@dataclass(frozen=True)
class Mark:
    """A place in the work of a stream; nothing off CUDA, where all work is done when it returns."""

    _event: torch.cuda.Event | None

    @staticmethod
    def here(device: torch.device) -> Mark:
        """The end of what was launched on the current stream of `device` so far."""
        if device.type != "cuda":
            return Mark(None)
        return Mark(torch.cuda.current_stream(device).record_event())

    def hold(self, device: torch.device) -> None:
        """What is launched on the current stream from now on comes after the mark."""
        if self._event is not None:
            torch.cuda.current_stream(device).wait_event(self._event)

    def wait(self) -> None:
        """Until the work before the mark is done."""
        if self._event is not None:
            self._event.synchronize()


def used_here(*tensors: torch.Tensor) -> None:
    """What is launched on the current stream by now may read these, whichever stream made them.

    Once nobody has them any more, their memory is given to others only after that. For what is kept
    and may be let go of by any thread; who uses one goes on holding it until all is launched.
    """
    for tensor in tensors:
        if tensor.is_cuda:
            tensor.record_stream(torch.cuda.current_stream(tensor.device))


@dataclass(frozen=True)
class SideStream:
    """The one stream of a device that such work runs on; see `side_stream`."""

    device: torch.device
    _stream: torch.cuda.Stream | None

    def current(self) -> AbstractContextManager[object]:
        """Make it the current stream of this thread."""
        return nullcontext() if self._stream is None else torch.cuda.stream(self._stream)

    def join(self) -> None:
        """What is launched on the current stream from now on comes after all that runs here."""
        if self._stream is not None:
            torch.cuda.current_stream(self.device).wait_stream(self._stream)


@cache
def side_stream(device: torch.device) -> SideStream:
    """That of `device`. With one for all, what the allocator keeps for it is used again."""
    if device.type != "cuda":
        return SideStream(device, None)
    return SideStream(device, torch.cuda.Stream(device))  # type: ignore[no-untyped-call]
