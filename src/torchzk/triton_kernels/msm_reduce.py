"""Sums of buckets to sums by bit position, of which an MSM is a short sum on the host."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from torchzk.ops.layout import rows_to_points
from torchzk.params.curves import Curve, Point
from torchzk.triton_kernels.msm_buckets import sum_by_label
from torchzk.triton_kernels.msm_digits import NO_KEY

# weights of more bits are cut in two first, which takes two additions a point; without it a point
# is added once for each bit of its weight
_WIDE = 6


@dataclass(frozen=True)
class Weighted:
    """Points that stand for weight 2^position times themselves.

    A label is slot 2^width + weight, with a weight that may be 0, and `positions` has the
    position of each slot.
    """

    labels: torch.Tensor
    rows: torch.Tensor
    positions: tuple[int, ...]
    width: int


def bit_positions(points: Weighted, curve: Curve) -> dict[int, Point]:
    """Sums S with sum_k 2^k S[k] that of the points: S[k] takes those whose weight has the bit.

    Source:
        With weights u 2^h + v, the points of one u are added and so are those of one v: what is
        left are 2^h sums with weights u 2^h and as many with weights v.
    """
    if points.width > _WIDE:
        points = _cut(points, curve)
    slot, weight = points.labels >> points.width, points.labels & (1 << points.width) - 1
    position = torch.tensor(points.positions, dtype=torch.int32, device=slot.device)[slot]
    bits = torch.arange(points.width, dtype=torch.int32, device=slot.device).unsqueeze(1)
    n_labels = max(points.positions) + points.width
    labels, rows = _sum(weight >> bits & 1 == 1, position + bits, points.rows, n_labels, curve)
    return dict(zip(labels.tolist(), rows_to_points(rows, curve), strict=True))


def _cut(points: Weighted, curve: Curve) -> Weighted:
    """The lower and the upper half of each weight, as slots 2 s and 2 s + 1 of slot s."""
    low, width = points.width // 2, points.width - points.width // 2
    weight = points.labels & (1 << points.width) - 1
    slot = points.labels >> points.width << width + 1
    lower, upper = weight & (1 << low) - 1, weight >> low
    has = torch.stack((lower != 0, upper != 0))
    halves = torch.stack((slot + lower, slot + (1 << width) + upper))
    n_labels = 2 * len(points.positions) << width
    labels, rows = _sum(has, halves, points.rows, n_labels, curve)
    positions = tuple(p for q in points.positions for p in (q, q + low))
    return Weighted(labels, rows, positions, width)


def _sum(
    has: torch.Tensor, labels: torch.Tensor, rows: torch.Tensor, n_labels: int, curve: Curve
) -> tuple[torch.Tensor, torch.Tensor]:
    """Sums by label of rows `[n, ...]`, each of them once for every True of `has` `[k, n]`."""
    keys, order = torch.where(has, 2 * labels, NO_KEY).to(torch.int32).flatten().sort()
    return sum_by_label(rows, keys, order, n_labels, curve)
