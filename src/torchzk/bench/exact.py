"""Sums of integers held in limbs, exact: how results too long for Python's integers are judged."""

from __future__ import annotations

import torch

from torchzk.ops.chunks import ranges

_MASK = 0xFFFFFFFF
_PIECE = 1 << 20


def total(x: torch.Tensor) -> int:
    """The sum of the integers in limbs `[L, n]`, n below 2^31."""
    return sum(int((limb.long() & _MASK).sum()) << 32 * i for i, limb in enumerate(x))


def dot(x: torch.Tensor, y: torch.Tensor) -> int:
    """sum_i x_i y_i of limbs `[L, n]` and `[M, n]`.

    `y` may be int64 as well, with limbs in [0, 2^40) that carries have not left.
    """
    sums = torch.zeros(2 * len(x) + 1, 2 * len(y) + 1, dtype=torch.int64, device=x.device)
    for piece in ranges(x.shape[1], _PIECE):
        a, b = _digits(x[:, piece]), _digits(y[:, piece])
        # products stay below 2^33, and 2^30 of them below 2^63
        sums += torch.stack([(a * digit).sum(1) for digit in b], 1)
    return sum(
        value << 16 * (i + j) for i, row in enumerate(sums.tolist()) for j, value in enumerate(row)
    )


def _digits(x: torch.Tensor) -> torch.Tensor:
    """Limbs `[L, n]` as int64 `[2 L + 1, n]` in base 2^16, below 2^17."""
    wide = x.long() & _MASK if x.dtype == torch.int32 else x
    out = torch.zeros(2 * len(x) + 1, x.shape[1], dtype=torch.int64, device=x.device)
    out[0:-1:2] += wide & 0xFFFF
    out[1::2] += wide >> 16 & 0xFFFF
    out[2::2] += wide >> 32
    return out
