"""Long batches of wide elements of Fr, `[W, n]`, worked on in pieces that stay in cache."""

from __future__ import annotations

import torch

from torchzk.ops import wide
from torchzk.ops.chunks import over_chunks
from torchzk.params.fields import FR


def to_wide(x: torch.Tensor) -> torch.Tensor:
    """Limbs `[8, n]` to normal elements `[W, n]`, in pieces."""
    return over_chunks(lambda v: wide.from_limbs(v, FR), x)


def to_limbs(x: torch.Tensor) -> torch.Tensor:
    """Elements `[W, n]` to limbs `[8, n]`, in pieces."""
    return over_chunks(lambda v: wide.to_limbs(v, FR), x)


def mul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Montgomery products of elements `[W, n]`, in pieces; `b` may be `[W, 1]`."""
    if b.shape[1] == 1:
        return over_chunks(lambda x: wide.mul(x, b, FR), a)
    return over_chunks(lambda x, y: wide.mul(x, y, FR), a, b)


def constant(value: int, device: torch.device) -> torch.Tensor:
    """The canonical integer `value` in Montgomery form, `[W, 1]`."""
    return wide.constant(FR.to_mont(value % FR.modulus), FR, device)
