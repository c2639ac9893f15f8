"""Reference multiples of one point, in plain PyTorch: how key generation makes its queries."""

from __future__ import annotations

import torch

from torchzk.errors import LayoutError
from torchzk.ops import wide_points
from torchzk.ops.buckets import PointPool
from torchzk.ops.chunks import point_chunk_size, ranges
from torchzk.ops.digits import signed_digits, signed_windows
from torchzk.ops.layout import check_limbs, points_to_rows
from torchzk.params import integers
from torchzk.params.curves import Curve, Point

# table rows are a point each: 2^15 of them in each of 17 windows are 143 MB in G2
_MAX_BITS = 16


def fixed_base(scalars: torch.Tensor, base: Point, curve: Curve) -> torch.Tensor:
    """scalars[i] * base for every i.

    Args:
        scalars: int32 limbs `[L, n]` of `curve.scalars` in canonical form, not Montgomery form.
        base: Any point of the curve, None included.
        curve: G1 or G2.

    Returns:
        Affine rows `[n, *curve.row_shape]` in Montgomery form, on the device of `scalars`.

    Raises:
        LayoutError: `scalars` is no `[L, n]` limb tensor.

    Source:
        Windows of signed digits: table[i][j] = j 2^(c i) base, one addition a window.
    """
    check_limbs(scalars, curve.scalars)
    if scalars.ndim != 2:
        raise LayoutError(f"scalars are [{curve.scalars.n_limbs}, n], got {list(scalars.shape)}")
    n = scalars.shape[1]
    bits = _window_bits(n, curve)
    table, pool = _table(base, bits, curve, scalars.device)
    pieces = [points_to_rows([], curve, scalars.device)]
    for piece in ranges(n, point_chunk_size(scalars.device)):
        total: torch.Tensor | None = None
        for multiples, digits in zip(table, signed_digits(scalars[:, piece], bits), strict=True):
            term = pool.points(multiples[digits.abs()])
            term[1] = torch.where(digits < 0, -term[1], term[1])
            total = term if total is None else wide_points.add(total, term, curve)
        if total is not None:
            pieces.append(wide_points.to_rows(total, curve))
    return torch.cat(pieces)


def _window_bits(n: int, curve: Curve) -> int:
    """The window that needs the fewest additions, for the table and the sums."""
    n_limbs = curve.scalars.n_limbs
    return min(
        range(2, _MAX_BITS + 1), key=lambda c: signed_windows(n_limbs, c) * (n + (1 << c - 1))
    )


def _table(
    base: Point, bits: int, curve: Curve, device: torch.device
) -> tuple[torch.Tensor, PointPool]:
    """Indices int64 `[w, 2^(bits - 1) + 1]` of the multiples of each window's unit in the pool."""
    units: list[Point] = [None, base]
    n_windows = signed_windows(curve.scalars.n_limbs, bits)
    while len(units) <= n_windows:
        units.append(integers.mul(curve, 1 << bits, units[-1]))
    rows = points_to_rows(units, curve, device)
    pool = PointPool(wide_points.pack_points(wide_points.from_rows(rows, curve)), curve)
    pool.reserve(n_windows << bits - 1)
    table = torch.arange(1, n_windows + 1, device=device).unsqueeze(1)
    for _ in range(bits - 1):
        # from multiples 1..m to 1..2 m
        largest = table[:, -1:].expand_as(table)
        more = pool.add(table.flatten(), largest.flatten())
        table = torch.cat((table, more.view_as(table)), dim=1)
    return torch.nn.functional.pad(table, (1, 0)), pool
