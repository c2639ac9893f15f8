"""What a worker knows of its device. There is no way here to wait for all of its streams."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from typing import Protocol

import torch

from torchzk import captures
from torchzk.scheduler import machine
from torchzk.scheduler.device_budget import driver_memory

WORKERS = {"cpu": 1, "cuda": 2}
"""Of a device by default: one hides the host's part of another's partition."""


@cache
def compute_stream(device: torch.device) -> torch.cuda.Stream | None:
    """The stream for all that runs under a device's compute lock; None off CUDA.

    One for all workers, who take turns: the allocator keeps freed memory for the stream it was
    taken on, so with a stream a worker the large buffers would be kept once a worker. It goes
    before others, such as those that check the next job.
    """
    if device.type != "cuda":
        return None
    return torch.cuda.Stream(device, priority=-1)  # type: ignore[no-untyped-call]


@cache
def _idle_streams(device: torch.device) -> list[torch.cuda.Stream]:
    """Streams that workers have left. Used again: CUDA has 32, then gives one out twice."""
    return []


class Device(Protocol):
    """A device that partitions are proved on."""

    @property
    def name(self) -> str:
        """As torch calls it, `cuda:0`."""
        ...

    def open_stream(self) -> AbstractContextManager[object]:
        """A stream for the calling thread, current until the context ends."""
        ...

    def free_bytes(self) -> int:
        """Bytes that the calling thread's stream can have without a trim."""
        ...

    def trim(self) -> None:
        """Give what the allocator keeps back to the driver. Under the mem lock only."""
        ...

    def is_lost(self, error: BaseException) -> bool:
        """Whether an error means that the device itself failed, not the work on it."""
        ...


class CpuDevice:
    """The host's processor: no streams, nothing to trim."""

    name = "cpu"

    @contextmanager
    def open_stream(self) -> Iterator[None]:
        """Nothing: a thread's work is done in order."""
        yield

    def free_bytes(self) -> int:
        """What a process here may hope for."""
        return machine.memory().usable

    def trim(self) -> None:
        """Nothing: freed memory is the system's at once."""

    def is_lost(self, error: BaseException) -> bool:
        """Never: without the host's processor nobody would ask."""
        return False


class CudaDevice:
    """A CUDA device."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self.name = str(device)

    @contextmanager
    def open_stream(self) -> Iterator[torch.cuda.Stream]:
        """A stream that no other thread works on, current in this one."""
        idle = _idle_streams(self._device)
        with torch.cuda.device(self._device):
            try:
                stream = idle.pop()
            except IndexError:
                stream = torch.cuda.Stream(self._device)  # type: ignore[no-untyped-call]
            try:
                with torch.cuda.stream(stream):
                    yield stream
            finally:
                idle.append(stream)

    def free_bytes(self) -> int:
        """What the driver has, and what torch keeps for the current stream.

        A block that was let go of is kept for the stream it was made on. This reads torch's list
        of blocks, which takes no part of the device's time.
        """
        free = driver_memory(self._device)
        stream = torch.cuda.current_stream(self._device).cuda_stream
        segments = torch.cuda.memory_snapshot()  # type: ignore[no-untyped-call]
        kept: int = sum(
            block["size"]
            for segment in segments
            if segment["device"] == self._device.index and segment["stream"] == stream
            for block in segment["blocks"]
            if block["state"] == "inactive"
        )
        return free + kept

    def trim(self) -> None:
        """Empty torch's cache, that of all devices and streams.

        In fixed blocks this waits for whatever runs on the device. With expandable segments it
        waits for the streams alone that blocks are kept for: not for others' kernels where these
        streams have done their work, but for what is queued on the compute stream where its blocks
        are given back, which that work may still use.
        """
        captures.empty_cache()

    def is_lost(self, error: BaseException) -> bool:
        """Whether CUDA reported an error that stays, which is any but a lack of memory."""
        return isinstance(error, torch.AcceleratorError) and "out of memory" not in str(error)
