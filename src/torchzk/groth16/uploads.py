"""Rows on their way to a device, in a ring of buffers that are filled while the caller works.

On CUDA what fills a buffer runs on a stream of its own, and is started by a thread of its own, so
that reading a file holds nobody up. Elsewhere there are no streams, and the thread remains. No
host waits for a device: the filling stream waits for the mark that the buffer's last user left,
and the caller's stream for the one that its filling left.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from math import prod

import torch

from torchzk.errors import LayoutError
from torchzk.groth16.streams import Fill, Mark, Piece, side_stream, steps


class Uploads:
    """Pieces of rows, in order, as many ahead of the caller as there are buffers for.

    All methods are for one thread and one stream of its. As a context manager it ends all that is
    under way, however the body ends.

    Args:
        shapes: Of every piece: rows, and the shape of a row, int32.
        device: Where the rows shall lie.
        fill: Gets the number of a piece and where its rows go. Called once a piece, in order, by
            another thread, with a stream of its own current; see `Fill`.
        slots: Buffers to begin with, each as long as the longest piece.
    """

    here = False
    """The caller may have to wait."""

    def __init__(
        self,
        shapes: Sequence[tuple[int, ...]],
        device: torch.device,
        fill: Callable[[int, torch.Tensor], None],
        slots: int,
    ) -> None:
        self._shapes = shapes
        self._device = device
        self._fill = fill
        self._slots = 0
        self._begun = 0
        self._coming: deque[tuple[torch.Tensor, torch.Tensor, Future[Mark]]] = deque()
        """Of pieces that were begun and not yet taken: buffer, rows, and when they are there."""
        self._lent: torch.Tensor | None = None
        self._side = side_stream(device)
        self._pool = ThreadPoolExecutor(1, "torchzk-points")
        try:
            self.widen(slots)
        except BaseException:
            self.close()
            raise

    def widen(self, slots: int) -> None:
        """Have so many buffers from now on, if there were fewer; no more than there are pieces."""
        more = min(slots, len(self._shapes)) - self._slots
        words = max(map(prod, self._shapes), default=0)
        for _ in range(more):
            buffer = torch.empty(words, dtype=torch.int32, device=self._device)
            self._slots += 1
            # the allocator may have given what earlier work of the current stream still reads
            self._begin(buffer, Mark.here(self._device))

    def take(self) -> torch.Tensor:
        """The rows of the next piece, good for the current stream until the next call.

        Raises:
            LayoutError: There are no more pieces, or no buffers. And whatever `fill` raised.
        """
        self._take_back()
        if not self._coming:
            raise LayoutError(f"no piece after {self._begun} of {len(self._shapes)} is on its way")
        buffer, rows, there = self._coming.popleft()
        there.result().hold(self._device)
        self._lent = buffer
        return rows

    def close(self) -> None:
        """Begin no more, and wait for the thread; what it launched stays in the stream's order."""
        self._pool.shutdown(cancel_futures=True)
        # the buffers go back to the current stream, and nothing may be written to them then
        self._side.join()
        self._coming.clear()
        self._lent = None

    def __enter__(self) -> Uploads:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _take_back(self) -> None:
        """The buffer of the piece before is free once what was launched by now is done."""
        buffer, self._lent = self._lent, None
        if buffer is not None:
            self._begin(buffer, Mark.here(self._device))

    def _begin(self, buffer: torch.Tensor, free: Mark) -> None:
        """Have the next piece filled in; without one the buffer is let go."""
        if self._begun == len(self._shapes):
            return
        number, shape = self._begun, self._shapes[self._begun]
        self._begun += 1
        rows = buffer[: prod(shape)].view(shape)
        self._coming.append((buffer, rows, self._pool.submit(self._make, number, rows, free)))

    def _make(self, number: int, rows: torch.Tensor, free: Mark) -> Mark:
        with self._side.current():
            free.hold(self._device)
            self._fill(number, rows)
            return Mark.here(self._device)


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
    shapes = [(stop - start, *row_shape) for start, stop in ranges]
    with Uploads(shapes, device, lambda i, rows: fill(rows, *ranges[i]), slots=2) as uploads:
        for start, stop in ranges:
            yield start, stop, uploads.take()
