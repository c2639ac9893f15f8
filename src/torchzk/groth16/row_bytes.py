"""Many points at a time between the bytes of key files and rows of limbs, on any device.

The file has x before y, c1 before c0, and numbers big-endian; rows have c0 first and the least
significant limb first. What `encoding` does to one point in small steps, this does to millions.
"""

from __future__ import annotations

import torch

from torchzk.backends import Backend
from torchzk.ops.layout import check_rows
from torchzk.params.curves import Curve
from torchzk.params.fields import PrimeField, split

_SIGN = -(1 << 31)


def rows_of_bytes(
    raw: torch.Tensor, curve: Curve, backend: Backend
) -> tuple[torch.Tensor, torch.Tensor]:
    """Points as a file has them to rows; no host waits for a device.

    Args:
        raw: uint8 `[n * size]`, contiguous, on the device to work on; at least one point.

    Returns:
        Rows in Montgomery form, and a scalar int64: the index of the first point with a number
        not below the modulus or with x = y = 0, or n if there is none. A stray flag of an encoding
        makes a number too large, so flags are covered.
    """
    planes = _turned(raw, curve).view(torch.int32).reshape(-1, curve.field.n_limbs).t().contiguous()
    numbers = 2 * curve.degree
    too_large = (~_is_canonical(planes, curve.field)).view(-1, numbers).any(dim=1)
    infinite = (planes == 0).all(dim=0).view(-1, numbers).all(dim=1)
    bad = too_large | infinite
    first = torch.where(bad.any(), bad.to(torch.uint8).argmax(), len(bad))
    rows = backend.to_mont(planes, curve.field).t().contiguous()
    return rows.view(-1, *curve.row_shape), first


def bytes_of_rows(rows: torch.Tensor, curve: Curve, backend: Backend) -> torch.Tensor:
    """Finite points in Montgomery form, on any device, to the file's bytes: uint8 on the host."""
    check_rows(rows, curve)
    if len(rows) == 0:
        return torch.empty(0, dtype=torch.uint8)
    planes = rows.reshape(-1, curve.field.n_limbs).t().contiguous()
    limbs = backend.from_mont(planes, curve.field).t().contiguous()
    return _turned(limbs.view(torch.uint8), curve).flatten().cpu()


def _turned(raw: torch.Tensor, curve: Curve) -> torch.Tensor:
    """Bytes `[n, 2, degree, bytes of a number]`, both orders of the last two turned around."""
    return raw.reshape(-1, 2, curve.degree, curve.field.n_bytes).flip(2, 3)


def _is_canonical(planes: torch.Tensor, field: PrimeField) -> torch.Tensor:
    """Whether each of any numbers `[L, n]` is below the modulus."""
    below = torch.zeros(planes.shape[1], dtype=torch.bool, device=planes.device)
    for limb, bound in zip(planes, split(field.modulus, field.n_limbs), strict=True):
        # with the top bit turned, signed words compare as unsigned ones do
        word = limb ^ _SIGN
        below = (word < bound + _SIGN) | ((word == bound + _SIGN) & below)
    return below
