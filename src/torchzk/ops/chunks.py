"""Cutting long batches into pieces that stay in cache.

On a CPU a piece of 2,048 elements keeps the words of a product in the second-level cache and
every torch operation below the size at which it would start threads, whose barriers cost more
than the work. Points share an inversion, so their pieces are longer. On a GPU the pieces only
bound the scratch memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache

import torch

_CPU_CHUNK = 2048
_CPU_POINTS = 8192
_GPU_CHUNK = 1 << 19


def chunk_size(device: torch.device) -> int:
    """Elements of a batch that are worked on at once on `device`."""
    return _CPU_CHUNK if device.type == "cpu" else _GPU_CHUNK


def point_chunk_size(device: torch.device) -> int:
    """Elements that share one inversion on `device`."""
    if device.type != "cpu":
        return _GPU_CHUNK
    _keep_freed_memory()
    return _CPU_POINTS


@lru_cache(maxsize=1)
def _keep_freed_memory() -> None:
    """Have the C library reuse freed blocks of this size rather than return them to the system.

    glibc raises its threshold to the size of the largest block ever returned. Below it, each
    temporary of a megabyte is mapped and cleared afresh, which costs more than its arithmetic.
    """
    torch.zeros(30 << 20, dtype=torch.uint8)


def ranges(n: int, size: int) -> Iterator[slice]:
    """0..n in slices of `size`, the last of them shorter."""
    return (slice(i, min(i + size, n)) for i in range(0, n, size))


def over_chunks(
    f: Callable[..., torch.Tensor], *xs: torch.Tensor, size: int | None = None
) -> torch.Tensor:
    """`f(*xs)` for a function that works on the last axis element by element.

    Pieces hold `size` elements, `chunk_size` of the device if it is not given.
    """
    n = xs[0].shape[-1]
    size = size or chunk_size(xs[0].device)
    if n <= size:
        return f(*xs)
    first = f(*(x[..., :size] for x in xs))
    out = first.new_empty(*first.shape[:-1], n)
    out[..., :size] = first
    for i in range(size, n, size):
        out[..., i : i + size] = f(*(x[..., i : i + size] for x in xs))
    return out


def over_rows(f: Callable[..., torch.Tensor], *xs: torch.Tensor) -> torch.Tensor:
    """`f(*xs)` for a function that works on the first axis point by point."""
    n, size = xs[0].shape[0], point_chunk_size(xs[0].device)
    if n <= size:
        return f(*xs)
    return torch.cat([f(*(x[piece] for x in xs)) for piece in ranges(n, size)])
