"""Reference XYZZ coordinates: x = X / ZZ, y = Y / ZZZ with ZZ^3 = ZZZ^2, no inversion to add.

Rows are int32 `[n, 4, L]` in G1, `[n, 4, 2, L]` in G2, in Montgomery form: X, Y, ZZ, ZZZ.
A point is infinite when ZZ = 0; those returned here are all zero then.
Source: the Explicit-Formulas Database, short Weierstrass curves, XYZZ: add-2008-s, dbl-2008-s-1.
"""

from __future__ import annotations

import torch

from torchzk.errors import LayoutError
from torchzk.ops import wide, wide_points
from torchzk.ops.chunks import over_rows
from torchzk.ops.layout import check_rows, check_summands
from torchzk.ops.wide_inverse import inverse_ext
from torchzk.ops.wide_points import is_zero_ext, reduce_ext
from torchzk.params.curves import Curve


def affine_to_xyzz(points: torch.Tensor, curve: Curve) -> torch.Tensor:
    """Affine rows `[n, *curve.row_shape]` to XYZZ rows with ZZ = ZZZ = 1."""
    check_rows(points, curve)

    def on_rows(rows: torch.Tensor) -> torch.Tensor:
        p = wide_points.from_rows(rows, curve)
        one = torch.zeros_like(p)
        one[:, 0] = wide.constant(curve.field.r, curve.field, points.device)
        finite = ~wide_points.is_infinity(p, curve)
        return wide_points.to_rows(torch.cat((p, torch.where(finite, one, 0.0))), curve)

    return over_rows(on_rows, points)


def xyzz_to_affine(points: torch.Tensor, curve: Curve) -> torch.Tensor:
    """XYZZ rows to affine rows, with one inversion for a piece of the batch."""
    _check(points, curve)
    field = curve.field
    r = wide.constant(field.r, field, points.device)

    def on_rows(rows: torch.Tensor) -> torch.Tensor:
        x, y, zz, zzz = wide_points.from_rows(rows, curve)
        infinite = is_zero_ext(zz, curve)
        inverse = inverse_ext(torch.where(infinite, r, zzz), field)
        # 1 / ZZ = ZZ^2 / ZZ^3 = (ZZ / ZZZ)^2
        square = wide.sqr_ext(wide.mul_ext(zz, inverse, field), field)
        xy = torch.stack((wide.mul_ext(x, square, field), wide.mul_ext(y, inverse, field)))
        return wide_points.to_rows(torch.where(infinite, 0.0, xy), curve)

    return over_rows(on_rows, points)


def xyzz_add_affine(acc: torch.Tensor, p: torch.Tensor, curve: Curve) -> torch.Tensor:
    """acc + p for XYZZ rows and affine rows: complete, as `xyzz_add`."""
    return xyzz_add(acc, affine_to_xyzz(p, curve), curve)


def xyzz_add(p: torch.Tensor, q: torch.Tensor, curve: Curve) -> torch.Tensor:
    """p + q, point by point: complete, so either may be infinite, equal or opposite.

    Args:
        p: XYZZ rows `[n, 4, *curve.row_shape[1:]]`, int32, Montgomery form.
        q: Same shape and device as `p`.
        curve: G1 or G2; any point that satisfies its equation will do.

    Returns:
        New XYZZ rows of the same shape.

    Raises:
        LayoutError: `p` or `q` is no XYZZ tensor of `curve`, or they differ in length.
    """
    _check(p, curve)
    _check(q, curve)
    check_summands(p, q)

    def on_rows(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        left, right = wide_points.from_rows(a, curve), wide_points.from_rows(b, curve)
        return wide_points.to_rows(_add(left, right, curve), curve)

    return over_rows(on_rows, p, q)


def _check(points: torch.Tensor, curve: Curve) -> None:
    shape = (4, *curve.row_shape[1:])
    if points.dtype != torch.int32 or points.shape[1:] != shape:
        raise LayoutError(
            f"{curve.name} XYZZ points are int32 [n, {shape}], "
            f"got {points.dtype} {list(points.shape)}"
        )


def _add(p: torch.Tensor, q: torch.Tensor, curve: Curve) -> torch.Tensor:
    """p + q on wide coordinates `[4, d, W, n]`."""
    field = curve.field
    (x1, y1, zz1, zzz1), (x2, y2, zz2, zzz2) = p, q
    u1, u2 = wide.mul_ext(x1, zz2, field), wide.mul_ext(x2, zz1, field)
    s1, s2 = wide.mul_ext(y1, zzz2, field), wide.mul_ext(y2, zzz1, field)
    run, rise = reduce_ext(u2 - u1, curve), reduce_ext(s2 - s1, curve)
    pp = wide.sqr_ext(run, field)
    ppp = wide.mul_ext(run, pp, field)
    q1 = wide.mul_ext(u1, pp, field)
    x3 = reduce_ext(wide.sqr_ext(rise, field) - ppp - 2 * q1, curve)
    y3 = reduce_ext(wide.mul_ext(rise, q1 - x3, field) - wide.mul_ext(s1, ppp, field), curve)
    zz3 = wide.mul_ext(wide.mul_ext(zz1, zz2, field), pp, field)
    zzz3 = wide.mul_ext(wide.mul_ext(zzz1, zzz2, field), ppp, field)
    total = torch.stack((x3, y3, zz3, zzz3))

    same = is_zero_ext(run, curve) & is_zero_ext(rise, curve)
    total = torch.where(same, _double(p, curve), total)
    total = torch.where(is_zero_ext(total[2], curve), 0.0, total)
    # last, as an infinite point looks the same as any other
    p_infinite, q_infinite = is_zero_ext(zz1, curve), is_zero_ext(zz2, curve)
    total = torch.where(p_infinite, q, torch.where(q_infinite, p, total))
    return torch.where(p_infinite & q_infinite, 0.0, total)


def _double(p: torch.Tensor, curve: Curve) -> torch.Tensor:
    field = curve.field
    x, y, zz, zzz = p
    u = reduce_ext(y + y, curve)
    v = wide.sqr_ext(u, field)
    w = wide.mul_ext(u, v, field)
    s = wide.mul_ext(x, v, field)
    m = reduce_ext(3 * wide.sqr_ext(x, field), curve)
    x3 = reduce_ext(wide.sqr_ext(m, field) - 2 * s, curve)
    y3 = reduce_ext(wide.mul_ext(m, s - x3, field) - wide.mul_ext(w, y, field), curve)
    return torch.stack((x3, y3, wide.mul_ext(v, zz, field), wide.mul_ext(w, zzz, field)))
