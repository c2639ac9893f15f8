"""Cutting long batches into pieces that stay in cache.

On a CPU a piece of 2,048 elements keeps the words of a product in the second-level cache and
every torch operation below the size at which it would start threads, whose barriers cost more
than the work. On a GPU the pieces only bound the scratch memory.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

_CPU_CHUNK = 2048
_GPU_CHUNK = 1 << 19


def chunk_size(device: torch.device) -> int:
    """Elements of a batch that are worked on at once on `device`."""
    return _CPU_CHUNK if device.type == "cpu" else _GPU_CHUNK


def over_chunks(f: Callable[..., torch.Tensor], *xs: torch.Tensor) -> torch.Tensor:
    """`f(*xs)` for a function that works on the last axis element by element."""
    n = xs[0].shape[-1]
    size = chunk_size(xs[0].device)
    if n <= size:
        return f(*xs)
    first = f(*(x[..., :size] for x in xs))
    out = first.new_empty(*first.shape[:-1], n)
    out[..., :size] = first
    for i in range(size, n, size):
        out[..., i : i + size] = f(*(x[..., i : i + size] for x in xs))
    return out
