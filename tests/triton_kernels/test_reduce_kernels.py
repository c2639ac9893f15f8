"""Sums over dense arrays in XYZZ coordinates, against integers: interpreted, or on a GPU."""

from __future__ import annotations

import pytest
import torch

from curve_samples import some_points, weighted
from torchzk.ops.layout import points_to_rows, rows_to_points
from torchzk.params import integers
from torchzk.params.curves import CURVES, Curve
from torchzk.triton_kernels import msm_reduce

pytestmark = pytest.mark.usefixtures("asm", "quick_inverse")
both = pytest.mark.parametrize("curve", CURVES.values(), ids=CURVES.keys())


@both
@pytest.mark.parametrize("n", [1, 66])
def test_total(device: torch.device, curve: Curve, n: int) -> None:
    known = some_points(curve, n, seed=n, different=2)
    got = msm_reduce.total(points_to_rows(known, curve, device), curve)
    assert rows_to_points(got, curve) == [weighted(curve, [1] * n, known)]


@both
def test_points_that_cancel(device: torch.device, curve: Curve) -> None:
    """Opposite sums meet, first of affine points and then of sums."""
    g = curve.generator
    minus = integers.neg(curve, g)
    known = [g] * 8 + [minus] * 8
    for points in (known, [g, *known[1:], g]):
        got = msm_reduce.total(points_to_rows(points, curve, device), curve)
        assert rows_to_points(got, curve) == [weighted(curve, [1] * len(points), points)]


@both
@pytest.mark.parametrize("width", [0, 3])
def test_sums_by_bit_and_weight(device: torch.device, curve: Curve, width: int) -> None:
    n = 1 << width
    known = some_points(curve, 2 * n, seed=width, different=2)
    arrays = points_to_rows(known, curve, device).view(2, n, *curve.row_shape)
    by_bit = msm_reduce.sums_by_bit(arrays, curve)
    halves = known[:n], known[n:]
    assert rows_to_points(msm_reduce.affine(by_bit.flatten(0, 1), curve), curve) == [
        weighted(curve, [i >> bit & 1 for i in range(n)], half)
        for half in halves
        for bit in range(width)
    ]
    weights = [n, *range(1, n)]
    sums = [weighted(curve, weights, half) for half in halves]
    # as two windows, and as two pieces of one
    got = msm_reduce.weigh(by_bit.unsqueeze(0), arrays[:, 0].unsqueeze(0), curve)
    assert rows_to_points(got, curve) == sums
    got = msm_reduce.weigh(by_bit.unsqueeze(1), arrays[:, :1], curve)
    assert rows_to_points(got, curve) == [integers.add(curve, *sums)]
