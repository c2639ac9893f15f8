"""Bytes of a file to a device: read into pinned buffers in turn, each copied while the next fills.

Source: what a copy without the host's help needs is in the CUDA programming guide, section
"Asynchronous concurrent execution".
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import torch

from torchzk.groth16.streams import Mark

BUFFER_BYTES = 1 << 26
"""Bytes of one of the two buffers, a power of two, which is what pinned memory is given out in."""

_READERS = 4
"""Threads that read one buffer: one alone copies some 8 GB/s from the system's cache, and asks a
disk for too little at a time."""
_LEAST_READ = 1 << 22
"""Bytes that are worth a thread."""


class Staging:
    """Two buffers and the threads that fill them. For one thread and one stream at a time.

    Args:
        n_bytes: How much is going to be read, at most.
        device: Where it goes.
    """

    def __init__(self, n_bytes: int, device: torch.device) -> None:
        self._device = device
        size, pinned = min(n_bytes, BUFFER_BYTES), device.type == "cuda"
        self._buffers = [torch.empty(size, dtype=torch.uint8, pin_memory=pinned) for _ in "ab"]
        self._copied = [Mark.here(device)] * 2
        self._turn = 0
        self._pool = ThreadPoolExecutor(_READERS, "torchzk-reader")

    def read(self, file: int, offset: int, n_bytes: int) -> torch.Tensor | None:
        """Bytes of a file, uint8 on the device; good until the call after the next.

        Args:
            file: Its descriptor.
            offset: Of the first byte.
            n_bytes: At most `BUFFER_BYTES`.

        Returns:
            None where the file ends before.
        """
        turn, self._turn = self._turn, 1 - self._turn
        self._copied[turn].wait()
        buffer = self._buffers[turn][:n_bytes]
        parts = _parts(n_bytes)
        view = buffer.numpy().data

        def fill(part: slice) -> bool:
            return _read(file, offset + part.start, view[part])

        each = self._pool.map if len(parts) > 1 else map
        if not all(list(each(fill, parts))):
            return None
        if self._device.type == "cpu":
            return buffer
        there = buffer.to(self._device, non_blocking=True)
        self._copied[turn] = Mark.here(self._device)
        return there

    def __enter__(self) -> Staging:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown()


def _parts(n_bytes: int) -> Sequence[slice]:
    """What each reader reads."""
    step = max(_LEAST_READ, -(-n_bytes // _READERS))
    return [slice(start, min(start + step, n_bytes)) for start in range(0, n_bytes, step)]


def _read(file: int, offset: int, into: memoryview) -> bool:
    """Fill `into` from the file; False where the file ends before."""
    while len(into):
        n = os.preadv(file, [into], offset)
        if n == 0:
            return False
        into, offset = into[n:], offset + n
    return True
