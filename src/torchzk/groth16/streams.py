"""Work beside the current stream: pieces that are made while the caller works on those before.

On CUDA what makes a piece runs on a stream of its own, and is started by a thread of its own, so
that reading a file holds nobody up. Elsewhere there are no streams, and the thread remains.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cache

import torch

from torchzk.errors import LayoutError

Piece = tuple[int, int, torch.Tensor]
"""Points of a query: the first, the one after the last, and their rows."""

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


def ahead(
    n: int, step: int, row_shape: tuple[int, ...], device: torch.device, fill: Fill
) -> Generator[Piece, None, None]:
    """Rows 0 to `n` in pieces of `step`, the next being filled while the caller works on this one.

    Two pieces are on the device, or one where one is all. Rows are good for the stream that is
    current when they are given, until the next piece is asked for.

    Args:
        n: Rows in all.
        step: Rows of a piece.
        row_shape: Of one row, int32.
        device: Where the rows shall lie.
        fill: Called once a piece, in order, by another thread, with a stream of its own current.

    Raises:
        LayoutError: `step` is less than 1. And whatever `fill` raises, instead of the piece.
    """
    ranges = list(steps(n, step))
    rows = [
        torch.empty(min(step, n), *row_shape, dtype=torch.int32, device=device) for _ in ranges[:2]
    ]
    # the allocator may have given what earlier work of the current stream still reads
    free = [Mark.here(device)] * len(rows)
    side = side_stream(device)

    def make(index: int, after: Mark) -> Mark:
        start, stop = ranges[index]
        with side.current():
            after.hold(device)
            fill(rows[index % 2][: stop - start], start, stop)
            return Mark.here(device)

    with ThreadPoolExecutor(1, "torchzk-points") as pool:
        coming: Future[Mark] | None = None
        try:
            for index, (start, stop) in enumerate(ranges):
                if coming is None:
                    coming = pool.submit(make, index, free[index % 2])
                coming.result().hold(device)
                coming = None
                if index + 1 < len(ranges):
                    coming = pool.submit(make, index + 1, free[(index + 1) % 2])
                yield start, stop, rows[index % 2][: stop - start]
                free[index % 2] = Mark.here(device)
        finally:
            if coming is not None and not coming.cancel():
                coming.exception()
            # the rows go back to the current stream, and nothing may be written to them then
            side.join()
