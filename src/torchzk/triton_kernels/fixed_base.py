"""Multiples of one point, as Triton kernels."""

from __future__ import annotations

import torch

from torchzk.errors import LayoutError
from torchzk.ops.chunks import ranges
from torchzk.ops.layout import check_limbs, points_to_rows
from torchzk.params import integers
from torchzk.params.curves import Curve, Point
from torchzk.triton_kernels.launch import on_device
from torchzk.triton_kernels.msm_buckets import sum_by_label
from torchzk.triton_kernels.msm_digits import (
    NO_KEY,
    Windows,
    offset_planes,
    scalar_bits,
    window_keys,
)
from torchzk.triton_kernels.pair_sums import add_pairs, named

# scalars at once: a few GiB of scratch
_PIECE = 1 << 20
_MAX_BITS = 16


def fixed_base(scalars: torch.Tensor, base: Point, curve: Curve) -> torch.Tensor:
    """scalars[i] * base for every i; see `torchzk.ops.fixed_base`."""
    check_limbs(scalars, curve.scalars)
    if scalars.ndim != 2:
        raise LayoutError(f"scalars are [{curve.scalars.n_limbs}, n], got {list(scalars.shape)}")
    n = scalars.shape[1]
    out = torch.zeros(n, *curve.row_shape, dtype=torch.int32, device=scalars.device)
    n_bits = scalar_bits(scalars) if n else 0
    if n_bits == 0 or base is None:
        return out
    with on_device(scalars.device):
        windows = _windows(n, n_bits)
        table = _table(base, windows, curve, scalars.device)
        for piece in ranges(n, _PIECE):
            found, rows = _multiples(scalars[:, piece], table, windows, curve)
            out[piece].index_copy_(0, found.long(), rows)
    return out


def _windows(n: int, n_bits: int) -> Windows:
    """The windows that need the fewest additions, for the table and the sums."""

    def cost(bits: int) -> int:
        windows = Windows(bits, n_bits)
        return windows.count * n + windows.labels(0, windows.count)

    return Windows(min(range(2, _MAX_BITS + 1), key=cost), n_bits)


def _table(base: Point, windows: Windows, curve: Curve, device: torch.device) -> torch.Tensor:
    """The point of every label: digit sizes 1, 2, ... of each window in turn."""
    units = [base]
    while len(units) < windows.count:
        units.append(integers.mul(curve, 1 << windows.bits, units[-1]))
    # [windows, multiples], with as many multiples as the last window needs
    largest = max(windows.buckets, windows.largest)
    table = points_to_rows(units, curve, device).unsqueeze(1)
    while table.shape[1] < largest:
        m = table.shape[1]
        index = torch.arange(windows.count * m, dtype=torch.int32, device=device)
        pairs = torch.stack((index, index // m * m + m - 1), 1)
        more = add_pairs(named(table.reshape(-1, *curve.row_shape), pairs), curve)
        table = torch.cat((table, more.view_as(table)), 1)
    return torch.cat((table[:-1, : windows.buckets].flatten(0, 1), table[-1]))


def _multiples(
    scalars: torch.Tensor, table: torch.Tensor, windows: Windows, curve: Curve
) -> tuple[torch.Tensor, torch.Tensor]:
    """Which scalars are not zero, and their multiples: sums of a table row for each window."""
    keys = window_keys(offset_planes(scalars, windows), windows, 0, windows.count).t()
    some = keys != NO_KEY
    index = (keys >> 1)[some].long()
    which = torch.arange(scalars.shape[1], dtype=torch.int32, device=scalars.device)
    labels = (2 * which.unsqueeze(1) + (keys & 1))[some]
    return sum_by_label(table, labels, index, scalars.shape[1], curve)
