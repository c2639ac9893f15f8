"""Sums of the points that share a label, for any number of labels at once."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from torchzk.params.curves import Curve
from torchzk.triton_kernels.pair_sums import MINUS, add_pairs, named

_MINUS = tl.constexpr(MINUS)
_BLOCK = 512


@triton.jit(do_not_specialize=["n", "period"])
def pair_keys(source, labels, keys, index, start, new_start, n, period, BLOCK: tl.constexpr):
    """Pair neighbours of one label: entry j is point `index[j]` mod period, signed by its key."""
    j = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = j < n
    key = tl.load(keys + j, mask=mask, other=0)
    label = key >> 1
    rank = j - tl.load(start + label, mask=mask, other=0)
    first = mask & ((rank & 1) == 0)
    other_key = tl.load(keys + j + 1, mask=first & (j + 1 < n), other=-2)
    paired = first & ((other_key >> 1) == label)
    a = tl.load(index + j, mask=first, other=0).to(tl.uint32) % period.to(tl.uint32)
    b = tl.load(index + j + 1, mask=paired, other=0).to(tl.uint32) % period.to(tl.uint32)
    a = a.to(tl.int32) | ((key & 1) * _MINUS)
    b = b.to(tl.int32) | ((other_key & 1) * _MINUS)
    at = tl.load(new_start + label, mask=first, other=0) + (rank >> 1)
    tl.store(source + 2 * at, a, mask=first)
    tl.store(source + 2 * at + 1, tl.where(paired, b, -1), mask=first)
    tl.store(labels + at, label, mask=first)


@triton.jit(do_not_specialize=["n"])
def pair_labels(source, new_labels, labels, start, new_start, n, BLOCK: tl.constexpr):
    """Pair neighbours of one label: entry j is point j."""
    j = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = j < n
    label = tl.load(labels + j, mask=mask, other=0)
    rank = j - tl.load(start + label, mask=mask, other=0)
    first = mask & ((rank & 1) == 0)
    other = tl.load(labels + j + 1, mask=first & (j + 1 < n), other=-1)
    at = tl.load(new_start + label, mask=first, other=0) + (rank >> 1)
    tl.store(source + 2 * at, j.to(tl.int32), mask=first)
    tl.store(source + 2 * at + 1, tl.where(other == label, j + 1, -1).to(tl.int32), mask=first)
    tl.store(new_labels + at, label, mask=first)


def sum_by_label(
    rows: torch.Tensor,
    keys: torch.Tensor,
    index: torch.Tensor,
    n_labels: int,
    curve: Curve,
) -> tuple[torch.Tensor, torch.Tensor]:
    """One sum for each label.

    Args:
        rows: Points `[n, *curve.row_shape]`, fewer than 2^30.
        keys: int32 `[m]`, ascending: twice the label, plus one for the opposite of the point.
            Keys of 2 n_labels and above are left out.
        index: int64 `[m]`, below 2^32: the row of each key's point, modulo n.
        n_labels: Labels are 0..n_labels - 1.
        curve: G1 or G2.

    Returns:
        The labels there are, ascending, int32 `[k]`, and their sums `[k, *curve.row_shape]`.

    Source:
        Neighbours of one label are added in pairs until each stands alone: as many rounds as the
        largest number of points has bits, each of them one batch over all labels.
    """
    device = rows.device
    bounds = torch.arange(0, 2 * n_labels + 1, 2, dtype=torch.int32, device=device)
    start = torch.searchsorted(keys, bounds, out_int32=True)
    count = start.diff()
    n, longest = torch.stack((start[-1], count.max())).tolist()
    if n == 0:
        return keys[:0], rows[:0]
    rounds = torch.arange(1, max(1, (longest - 1).bit_length()) + 1, device=device)
    starts, sizes = _rounds(count, rounds)
    labels, previous = keys, start
    for k, (size, start) in enumerate(zip(sizes, starts, strict=True)):
        source = torch.empty(size, 2, dtype=torch.int32, device=device)
        new_labels = torch.empty(size, dtype=torch.int32, device=device)
        grid = (triton.cdiv(n, _BLOCK),)
        if k == 0:
            pair_keys[grid](
                source, new_labels, keys, index, previous, start, n, len(rows), BLOCK=_BLOCK
            )
        else:
            pair_labels[grid](source, new_labels, labels, previous, start, n, BLOCK=_BLOCK)
        rows = add_pairs(named(rows, source), curve)
        n, labels, previous = size, new_labels, start
    return labels, rows


def _rounds(count: torch.Tensor, rounds: torch.Tensor) -> tuple[torch.Tensor, list[int]]:
    """Where each label begins after each round of pairing, int32 `[rounds, labels]`, and sizes."""
    rounds = rounds.to(torch.int32).unsqueeze(1)
    left = (count + ((1 << rounds) - 1)) >> rounds
    # row by row: the scan of a matrix gives a row to one block, which took 21 ms of an MSM of 2^24
    ends = torch.empty_like(left)
    for row, out in zip(left, ends, strict=True):
        torch.cumsum(row, 0, dtype=torch.int32, out=out)
    return ends - left, ends[:, -1].tolist()
