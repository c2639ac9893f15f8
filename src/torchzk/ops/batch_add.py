"""Reference sum of many points, or of those chosen by bits or by a list, in plain PyTorch."""

from __future__ import annotations

import torch

from torchzk.ops.curve import add_affine
from torchzk.ops.layout import check_chosen, check_rows, rows_to_points
from torchzk.params.curves import Curve, Point


def batch_add(points: torch.Tensor, chosen: torch.Tensor | None, curve: Curve) -> Point:
    """The sum of all points, or of those chosen.

    Args:
        points: Affine rows `[n, *curve.row_shape]`, as for `msm`.
        chosen: bool `[n]`, or int64 indices `[m]`, in which an index may come again; None for all.
        curve: G1 or G2.

    Returns:
        The sum in canonical integers, None if it is infinite or nothing is chosen.

    Raises:
        LayoutError: Not a row tensor, or `chosen` does not fit it.

    Source:
        The first half of the points is added to the second, until one is left.
    """
    check_rows(points, curve)
    if chosen is not None:
        check_chosen(chosen, points)
    rows = points if chosen is None else points[chosen]
    while len(rows) > 1:
        half = len(rows) // 2
        sums = add_affine(rows[:half], rows[half : 2 * half], curve)
        rows = torch.cat((sums, rows[2 * half :]))
    return rows_to_points(rows, curve)[0] if len(rows) else None
