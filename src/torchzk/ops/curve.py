"""Reference affine curve operations over point rows, in plain PyTorch on any device."""

from __future__ import annotations

import torch

from torchzk.ops import wide, wide_points
from torchzk.ops.chunks import over_rows
from torchzk.ops.field import neg
from torchzk.ops.layout import (
    check_rows,
    check_summands,
    coordinates_to_rows,
    rows_to_coordinates,
)
from torchzk.params.curves import Curve


def add_affine(p: torch.Tensor, q: torch.Tensor, curve: Curve) -> torch.Tensor:
    """p + q, point by point: complete, so either may be infinite, equal or opposite.

    Args:
        p: Affine rows `[n, *curve.row_shape]`, int32, Montgomery form; infinity is (0, 0).
        q: Same shape and device as `p`.
        curve: G1 or G2; any point that satisfies its equation will do.

    Returns:
        New rows of the same shape.

    Raises:
        LayoutError: `p` or `q` is no row tensor of `curve`, or they differ in length.

    Source:
        The chord and tangent rule, with one inversion for a piece of the batch.
    """
    check_rows(p, curve)
    check_rows(q, curve)
    check_summands(p, q)

    def on_rows(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        left, right = wide_points.from_rows(a, curve), wide_points.from_rows(b, curve)
        return wide_points.to_rows(wide_points.add(left, right, curve), curve)

    return over_rows(on_rows, p, q)


def neg_affine(points: torch.Tensor, curve: Curve) -> torch.Tensor:
    """-p, point by point; see `add_affine`."""
    x, y = rows_to_coordinates(points, curve)
    minus = torch.stack([neg(c.contiguous(), curve.field) for c in y])
    return coordinates_to_rows(x, minus, curve)


def on_curve(points: torch.Tensor, curve: Curve) -> torch.Tensor:
    """Which points satisfy y^2 = x^3 + b, bool `[n]`; infinity does. Not a subgroup check."""
    check_rows(points, curve)
    field = curve.field
    b = torch.stack([wide.constant(field.to_mont(c), field, points.device) for c in curve.b])

    def on_rows(rows: torch.Tensor) -> torch.Tensor:
        p = wide_points.from_rows(rows, curve)
        cube = wide.mul_ext(wide.sqr_ext(p[0], field), p[0], field)
        gap = wide_points.reduce_ext(wide.sqr_ext(p[1], field) - cube - b, curve)
        return wide_points.is_zero_ext(gap, curve) | wide_points.is_infinity(p, curve)

    return over_rows(on_rows, points)
