"""Many points at a time between the bytes of key files and rows of limbs.

The file has x before y, c1 before c0, and numbers big-endian; rows have c0 first and the least
significant limb first. What `encoding` does to one point in small steps, this does to millions.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from torchzk.backends import Backend
from torchzk.ops.layout import check_rows
from torchzk.params.curves import Curve
from torchzk.params.fields import PrimeField, split

Words = NDArray[np.uint32]
"""Limbs of points in canonical form, `[n, 2, degree, L]`."""


def words_of_bytes(buffer: Words, curve: Curve) -> Words:
    """The file's words, read little-endian as they lie, to canonical limbs: always a copy."""
    limbs = buffer.reshape(-1, 2, curve.degree, curve.field.n_limbs)
    flipped: Words = limbs[:, :, ::-1, ::-1].byteswap()
    return flipped


def first_bad(words: Words, field: PrimeField) -> int | None:
    """Index of the first point with a number not below the modulus, or with x = y = 0.

    A stray flag makes a number too large, so flags are covered. The top limb alone decides for
    all but one in 2^28 numbers, so only it is read for all.
    """
    modulus = split(field.modulus, field.n_limbs)
    top = words[..., -1]
    suspects = np.flatnonzero(((top >= modulus[-1]) | (top == 0)).any(axis=(1, 2)))
    points = words[suspects]
    below = np.zeros(points.shape[:-1], dtype=bool)
    for limb, bound in enumerate(modulus):
        below = (points[..., limb] < bound) | (points[..., limb] == bound) & below
    bad = suspects[~below.all(axis=(1, 2)) | ~points.any(axis=(1, 2, 3))]
    return int(bad[0]) if len(bad) else None


def rows_of_words(
    words: Words, curve: Curve, backend: Backend, device: torch.device | str
) -> torch.Tensor:
    """Canonical limbs to rows in Montgomery form on `device`."""
    limbs = torch.from_numpy(words.view(np.int32)).to(device)
    planes = limbs.reshape(-1, curve.field.n_limbs).t().contiguous()
    rows = backend.to_mont(planes, curve.field).t().contiguous()
    return rows.reshape(-1, *curve.row_shape)


def bytes_of_rows(rows: torch.Tensor, curve: Curve, backend: Backend) -> bytes:
    """Finite points in Montgomery form, on any device, to the file's bytes."""
    check_rows(rows, curve)
    if len(rows) == 0:
        return b""
    planes = rows.reshape(-1, curve.field.n_limbs).t().contiguous()
    limbs = backend.from_mont(planes, curve.field).t().contiguous().cpu().numpy()
    # the order of the file is turned around by the same flips that turn it back
    return words_of_bytes(limbs.view(np.uint32), curve).tobytes()
