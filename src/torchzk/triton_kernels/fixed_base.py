"""Multiples of one point, as Triton kernels."""

from __future__ import annotations

import torch

from torchzk.errors import LayoutError
from torchzk.ops.chunks import ranges
from torchzk.ops.layout import check_limbs, points_to_rows
from torchzk.params import integers
from torchzk.params.curves import Curve, Point
from torchzk.params.fields import FP
from torchzk.triton_kernels.launch import number_on, on_device
from torchzk.triton_kernels.msm_digits import (
    NO_KEY,
    Windows,
    digits,
    scalar_bound,
)
from torchzk.triton_kernels.pair_sums import MINUS, add_pairs, named

# scalars at once: a few GiB of scratch
_PIECE = 1 << 20


def fixed_base(scalars: torch.Tensor, base: Point, curve: Curve) -> torch.Tensor:
    """scalars[i] * base for every i; see `torchzk.ops.fixed_base`."""
    check_limbs(scalars, curve.scalars)
    if scalars.ndim != 2:
        raise LayoutError(f"scalars are [{curve.scalars.n_limbs}, n], got {list(scalars.shape)}")
    n = scalars.shape[1]
    out = torch.zeros(n, *curve.row_shape, dtype=torch.int32, device=scalars.device)
    bound = scalar_bound(scalars) if n else 1
    if bound == 1 or base is None:
        return out
    with on_device(scalars.device):
        windows = windows_of(n, bound, scalars.device)
        table = _table(base, windows, curve, scalars.device)
        for piece in ranges(n, _PIECE):
            out[piece] = _multiples(scalars[:, piece], table, windows, curve)
    return out


def windows_of(n: int, bound: int, device: torch.device) -> Windows:
    """The windows that need the fewest additions, for the table and the sums."""

    def cost(bits: int) -> int:
        windows = Windows(bits, bound)
        return windows.count * (n + windows.sizes)

    most = number_on(device, "fixed base bits", FP.n_limbs)
    return Windows(min(range(2, most + 1), key=cost), bound)


def _table(base: Point, windows: Windows, curve: Curve, device: torch.device) -> torch.Tensor:
    """The point of every label of `Digits.keys`, and infinity."""
    units = [base]
    while len(units) < windows.count:
        units.append(integers.mul(curve, 1 << windows.bits, units[-1]))
    # [windows, sizes], from size 1
    table = points_to_rows(units, curve, device).unsqueeze(1)
    while table.shape[1] < windows.sizes:
        m = table.shape[1]
        index = torch.arange(windows.count * m, dtype=torch.int32, device=device)
        pairs = torch.stack((index, index // m * m + m - 1), 1)
        more = add_pairs(named(table.reshape(-1, *curve.row_shape), pairs), curve)
        table = torch.cat((table, more.view_as(table)), 1)
    # the largest size is at 0
    table = table.roll(1, dims=1).flatten(0, 1)
    return torch.cat((table, torch.zeros_like(table[:1])))


def _multiples(
    scalars: torch.Tensor, table: torch.Tensor, windows: Windows, curve: Curve
) -> torch.Tensor:
    """A table row for each window of each scalar, added in rounds of pairs."""
    n, count = scalars.shape[1], windows.count
    keys = digits(scalars, windows).keys(0, count)
    signed = (keys >> 1) | (keys & 1) * MINUS
    index = torch.where(keys == NO_KEY, len(table) - 1, signed).t()
    rows = table
    while True:
        if count % 2:
            index = torch.nn.functional.pad(index, (0, 1), value=-1)
        rows = add_pairs(named(rows, index.reshape(-1, 2)), curve)
        count = (count + 1) // 2
        if count == 1:
            return rows
        index = torch.arange(n * count, dtype=torch.int32, device=rows.device).view(n, count)
