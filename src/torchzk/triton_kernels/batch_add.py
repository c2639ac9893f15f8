"""Sums of all points or of chosen ones, as Triton kernels."""

from __future__ import annotations

import torch

from torchzk.ops.layout import check_chosen, check_rows, rows_to_points
from torchzk.params.curves import Curve, Point
from torchzk.params.fields import FP
from torchzk.triton_kernels import msm_reduce
from torchzk.triton_kernels.launch import aligned, number_on, on_device
from torchzk.triton_kernels.pair_sums import add_pairs, named, neighbours


def batch_add(points: torch.Tensor, chosen: torch.Tensor | None, curve: Curve) -> Point:
    """The sum of all points, or of those chosen; see `torchzk.ops.batch_add`."""
    check_rows(points, curve)
    rows = aligned(points)
    with on_device(rows.device):
        if chosen is not None:
            rows = _first_round(rows, chosen, curve)
        few = number_on(rows.device, "points in rounds", FP.n_limbs)
        while len(rows) > few:
            rows = add_pairs(neighbours(rows), curve)
        if len(rows) == 0:
            return None
        return rows_to_points(msm_reduce.total(rows, curve), curve)[0]


def _first_round(rows: torch.Tensor, chosen: torch.Tensor, curve: Curve) -> torch.Tensor:
    """Sums of two chosen points each."""
    check_chosen(chosen, rows)
    if chosen.dtype == torch.bool:
        chosen = chosen.nonzero().squeeze(1)
    source = chosen.to(torch.int32)
    if len(source) % 2:
        source = torch.nn.functional.pad(source, (0, 1), value=-1)
    return add_pairs(named(rows, source.view(-1, 2)), curve)
