"""Affine points on wide elements: how the reference adds them.

Points being worked on are float64 `[2, d, W, n]`, x before y, of normal elements. Points at rest
are packed, int32 `[n, 2 d W]`: the same words, one point a row, so that a point is gathered with
one read and neither direction needs more than a cast. Infinity is (0, 0) in both.
"""

from __future__ import annotations

import torch

from torchzk.ops import wide
from torchzk.ops.wide_inverse import inverse_ext
from torchzk.params.curves import Curve


def packed_width(curve: Curve) -> int:
    """int32 words of a packed point: 2 d W."""
    return 2 * curve.degree * wide.n_words(curve.field)


def from_rows(rows: torch.Tensor, curve: Curve) -> torch.Tensor:
    """Rows `[n, *curve.row_shape]` to points `[2, d, W, n]`."""
    n, d, field = rows.shape[0], curve.degree, curve.field
    planes = rows.reshape(n, 2 * d, field.n_limbs).permute(2, 1, 0).flatten(1)
    words = wide.from_limbs(planes, field).view(wide.n_words(field), 2, d, n)
    return words.permute(1, 2, 0, 3)


def to_rows(points: torch.Tensor, curve: Curve) -> torch.Tensor:
    """Inverse of `from_rows`."""
    n, d, field = points.shape[3], curve.degree, curve.field
    planes = points.permute(2, 0, 1, 3).flatten(1)
    limbs = wide.to_limbs(planes, field).view(field.n_limbs, 2 * d, n)
    return limbs.permute(2, 1, 0).reshape(n, *curve.row_shape)


def pack_points(points: torch.Tensor) -> torch.Tensor:
    """Points `[2, d, W, n]` to packed points."""
    return points.flatten(0, 2).to(torch.int32).t().contiguous()


def unpack_points(packed: torch.Tensor, curve: Curve) -> torch.Tensor:
    """Inverse of `pack_points`."""
    planes = packed.t().to(torch.float64, memory_format=torch.contiguous_format)
    return planes.view(2, curve.degree, wide.n_words(curve.field), packed.shape[0])


def is_infinity(points: torch.Tensor, curve: Curve) -> torch.Tensor:
    """Which of the points `[2, d, W, n]` are at infinity: bool `[n]`."""
    return wide.is_zero(points, curve.field).all(dim=1).all(dim=0)


def add(p: torch.Tensor, q: torch.Tensor, curve: Curve) -> torch.Tensor:
    """p + q for points `[2, d, W, n]`, whatever they are, with one inversion for all."""
    field = curve.field
    (x1, y1), (x2, y2) = p, q
    rise, run = y2 - y1, reduce_ext(x2 - x1, curve)
    vertical = is_zero_ext(run, curve)
    some_vertical = bool(vertical.any())
    if some_vertical:
        # equal points have a tangent; opposite ones, like two at infinity, sum to infinity
        tangent = vertical & is_zero_ext(reduce_ext(rise, curve), curve)
        rise = torch.where(tangent, 3 * wide.sqr_ext(x1, field), rise)
        run = torch.where(tangent, reduce_ext(y1 + y1, curve), run)
        vertical = is_zero_ext(run, curve)
        run = torch.where(vertical, wide.constant(field.r, field, p.device), run)
    slope = wide.mul_ext(rise, inverse_ext(run, field), field)
    x3 = reduce_ext(wide.sqr_ext(slope, field) - x1 - x2, curve)
    y3 = reduce_ext(wide.mul_ext(slope, x1 - x3, field) - y1, curve)
    total = torch.stack((x3, y3))
    if some_vertical:
        total = torch.where(vertical, 0.0, total)
    p_infinite, q_infinite = is_infinity(p, curve), is_infinity(q, curve)
    if bool((p_infinite | q_infinite).any()):
        total = torch.where(q_infinite, p, torch.where(p_infinite, q, total))
    return total


def negate(points: torch.Tensor) -> torch.Tensor:
    """-p for points `[2, d, W, n]`."""
    return torch.stack((points[0], -points[1]))


def reduce_ext(a: torch.Tensor, curve: Curve) -> torch.Tensor:
    """Coordinates `[d, W, n]` made normal; see `wide.reduce`."""
    return torch.stack([wide.reduce(c, curve.field) for c in a])


def is_zero_ext(a: torch.Tensor, curve: Curve) -> torch.Tensor:
    """Which of the normal coordinates `[d, W, n]` are zero: bool `[n]`."""
    return wide.is_zero(a, curve.field).all(dim=0)
