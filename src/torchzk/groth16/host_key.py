"""Keys in memory of the host: a GPU reads their points by itself, while it works on others.

Only pinned memory is read without the host's help. torch's own allocator of it rounds every
size up to a power of two, which of 47 GB would waste 20; so slabs are mapped and registered here.
"""

from __future__ import annotations

import mmap
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import torch

from torchzk.captures import at_rest
from torchzk.errors import ResourceError
from torchzk.groth16.keys import (
    QUERIES,
    PartsHere,
    Placed,
    ProvingKey,
    QueryLengths,
    VerifyingKey,
    check_range,
    placed,
    shapes_of,
)
from torchzk.groth16.setup import NewKey
from torchzk.groth16.streams import Mark, Part, Parts, Piece, steps
from torchzk.groth16.uploads import Uploads, ahead

SLAB_BYTES = 1 << 30
"""Bytes that are pinned at once, at most."""

COPY_BYTES = 1 << 26
"""Bytes that are copied to a device at once: what others copy there waits for no more than that,
1.2 ms at 55 GB/s."""

_PINNED_AT_ONCE = 4
"""Slabs: zeroing new pages keeps a core busy, and a memory bus not."""
_PORTABLE = 1
"""cudaHostRegisterPortable: pinned for every device."""


class HostRows:
    """int32 `[n, *row_shape]` in memory of the host, in slabs; pinned if it is for a GPU.

    Slabs are made by the threads of `pool`; whoever wants one waits for it, and gets the
    `ResourceError` if the system does not let so much memory be pinned.

    Args:
        n: Rows.
        row_shape: Of one row.
        device: Which device shall read them.
        pool: Must not be shut down before the slabs are there.
    """

    def __init__(
        self, n: int, row_shape: tuple[int, ...], device: torch.device, pool: Executor
    ) -> None:
        self._shape = row_shape
        self._step = max(1, SLAB_BYTES // (4 * prod(row_shape)))
        self._slabs = [
            pool.submit(self._slab, stop - start, device) for start, stop in steps(n, self._step)
        ]

    def write(self, start: int, rows: torch.Tensor) -> None:
        """Start copying `rows` to `start` and after; on CUDA by the current stream."""
        for slab, part in self._parts(start, start + len(rows)):
            slab.copy_(rows[part], non_blocking=True)

    def read(self, out: torch.Tensor, start: int, stop: int) -> None:
        """Start copying rows `start` to `stop` into `out`."""
        step = max(1, COPY_BYTES // (4 * prod(self._shape)))
        for slab, part in self._parts(start, stop):
            to = out[part]
            for first, last in steps(len(slab), step):
                to[first:last].copy_(slab[first:last], non_blocking=True)

    def view(self, start: int, stop: int) -> torch.Tensor | None:
        """Rows `start` to `stop` as they lie, or None where they do not lie in one slab."""
        parts = list(self._parts(start, stop))
        return parts[0][0] if len(parts) == 1 else None

    def _parts(self, start: int, stop: int) -> Iterator[tuple[torch.Tensor, slice]]:
        """Slab by slab the rows of a range, and where they stand in it."""
        at = start
        while at < stop:
            index, offset = divmod(at, self._step)
            end = min(stop, (index + 1) * self._step)
            slab = self._slabs[index].result()
            yield slab[offset : offset + end - at], slice(at - start, end - start)
            at = end

    def _slab(self, n: int, device: torch.device) -> torch.Tensor:
        if device.type != "cuda":
            return torch.empty(n, *self._shape, dtype=torch.int32)
        memory = mmap.mmap(-1, 4 * n * prod(self._shape))
        if hasattr(mmap, "MADV_HUGEPAGE"):
            memory.madvise(mmap.MADV_HUGEPAGE)
        # pages come into being here, in many threads, and not one by one as they are pinned
        words = np.frombuffer(memory, dtype=np.int32)
        words.fill(0)
        slab = torch.from_numpy(words)
        _pin(slab, device)
        weakref.finalize(self, _unpin, slab, device).atexit = False
        return slab.view(n, *self._shape)


@dataclass(frozen=True)
class HostKey:
    """A proving key held as rows in memory of the host: affine, in Montgomery form."""

    vk: VerifyingKey
    lengths: QueryLengths
    queries: Mapping[str, HostRows]

    def query(self, name: str, start: int, stop: int, device: torch.device | str) -> torch.Tensor:
        """As `ProvingKey.query`; on the CPU a view where the rows lie together."""
        check_range(self.lengths, name, start, stop)
        device, rows = torch.device(device), self.queries[name]
        view = rows.view(start, stop) if device.type == "cpu" else None
        if view is not None:
            return view
        out = _empty(stop - start, name, device)
        rows.read(out, start, stop)
        return out

    def pieces(self, name: str, step: int, device: torch.device | str) -> Iterator[Piece]:
        """As `ProvingKey.pieces`: the next piece is copied while the caller works on this one."""
        device, n = torch.device(device), self.lengths.of(name)
        if device.type == "cpu":
            return ((i, j, self.query(name, i, j, device)) for i, j in steps(n, step))
        return ahead(n, step, QUERIES[name].row_shape, device, self.queries[name].read)

    def parts(
        self, order: Sequence[Part], device: torch.device | str, slots: int
    ) -> AbstractContextManager[Parts]:
        """As `ProvingKey.parts`; views on the CPU."""
        device = torch.device(device)
        if device.type == "cpu":
            return nullcontext(PartsHere(self, order, device))

        def fill(number: int, rows: torch.Tensor) -> None:
            part = order[number]
            self.queries[part.query].read(rows, part.start, part.stop)

        return Uploads(shapes_of(self.lengths, order), device, fill, slots)


def to_host(new: NewKey, device: torch.device) -> HostKey:
    """A key in the making, moved to the host as it is made on `device`.

    Raises:
        ResourceError: The system does not let so much memory be pinned. And as its pieces do.
    """
    return _filled(new.vk, new.lengths, device, new.placed())


def held_on_host(
    key: ProvingKey,
    device: torch.device,
    advance: Callable[[float], None] = lambda fraction: None,
) -> HostKey:
    """All points of a key in memory of the host, for `device`.

    `advance` as for `placed`, errors as for `to_host`.
    """
    return _filled(key.vk, key.lengths, device, placed(key, device, advance))


def _filled(
    vk: VerifyingKey, lengths: QueryLengths, device: torch.device, pieces: Iterable[Placed]
) -> HostKey:
    """As `keys.filled`. Slabs are pinned while the first pieces come."""
    with ThreadPoolExecutor(_PINNED_AT_ONCE, "torchzk-pin") as pool:
        queries = {
            name: HostRows(lengths.of(name), curve.row_shape, device, pool)
            for name, curve in QUERIES.items()
        }
        try:
            for name, start, rows in pieces:
                queries[name].write(start, rows)
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    # any stream may read it from now on
    Mark.here(device).wait()
    return HostKey(vk, lengths, queries)


def _empty(n: int, name: str, device: torch.device) -> torch.Tensor:
    return torch.empty(n, *QUERIES[name].row_shape, dtype=torch.int32, device=device)


def _pin(slab: torch.Tensor, device: torch.device) -> None:
    n_bytes = slab.numel() * slab.element_size()
    with torch.cuda.device(device):
        code = int(_cudart().cudaHostRegister(slab.data_ptr(), n_bytes, _PORTABLE))
    if code:
        raise ResourceError(
            f"{n_bytes / 2**30:.1f} GiB of memory cannot be pinned for {device} (CUDA error "
            f"{code}): give the process more memory to lock, or keep the key on the device"
        )


def _unpin(slab: torch.Tensor, device: torch.device) -> None:
    """Give a slab back once no copy uses it."""
    with torch.cuda.device(device), at_rest():
        # whoever copied has its own stream, and the pages may go as soon as they are not pinned
        torch.cuda.synchronize(device)
        _cudart().cudaHostUnregister(slab.data_ptr())


def _cudart() -> Any:
    return torch.cuda.cudart()  # type: ignore[no-untyped-call]
