"""Sums of the points that share a label, for any number of labels at once."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from torchzk.params.curves import Curve
from torchzk.params.fields import FP
from torchzk.triton_kernels.launch import launch, shape_on
from torchzk.triton_kernels.pair_sums import MINUS, add_pairs, named

_MINUS = tl.constexpr(MINUS)


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
    rows: torch.Tensor, keys: torch.Tensor, n_labels: int, curve: Curve
) -> torch.Tensor:
    """One sum for each label.

    Args:
        rows: Points `[n, *curve.row_shape]`, fewer than 2^30.
        keys: int32, any shape, 2^30 of them at most: twice the label, plus one for the opposite of
            the point. Key j is of row j modulo n. Keys of 2 n_labels and above are left out. The
            keys are used up: their memory is given back once they are sorted.
        n_labels: Labels are 0..n_labels - 1.
        curve: G1 or G2.

    Returns:
        Sums `[n_labels, *curve.row_shape]`, infinity where a label has no point.

    Source:
        Neighbours of one label are added in pairs until each stands alone: as many rounds as the
        largest number of points has bits, each of them one batch over all labels.
    """
    device, shape = rows.device, shape_on(rows.device, "labels", FP.n_limbs)
    memory = keys.untyped_storage()
    keys, index = keys.flatten().sort()
    memory.resize_(0)
    bounds = torch.arange(0, 2 * n_labels + 1, 2, dtype=torch.int32, device=device)
    start = torch.searchsorted(keys, bounds, out_int32=True)
    del bounds
    count = start.diff()
    n, longest = torch.stack((start[-1], count.max())).tolist()
    out = torch.zeros(n_labels, *curve.row_shape, dtype=torch.int32, device=device)
    if n == 0:
        return out
    labels, previous = keys, start
    period = len(rows)
    for k, size in enumerate(_sizes(count, longest)):
        start = _starts(_left(count, k + 1))
        source = torch.empty(size, 2, dtype=torch.int32, device=device)
        new_labels = torch.empty(size, dtype=torch.int32, device=device)
        if k == 0:
            given = (keys, index, previous, start, n, period)
            launch(pair_keys, n, shape, device, source, new_labels, *given)
            del given, keys, index
        else:
            launch(pair_labels, n, shape, device, source, new_labels, labels, previous, start, n)
        n, labels, previous = size, new_labels, start
        rows = add_pairs(named(rows, source), curve)
        del source
    return out.index_copy_(0, labels.long(), rows)


def _left(count: torch.Tensor, rounds: int) -> torch.Tensor:
    """How many points each label has left after so many rounds of pairing."""
    return (count + ((1 << rounds) - 1)) >> rounds


def _sizes(count: torch.Tensor, longest: int) -> list[int]:
    """How many points there are after each round, until no label has two."""
    rounds = range(1, max(1, (longest - 1).bit_length()) + 1)
    sizes: list[int] = torch.stack([_left(count, k).sum() for k in rounds]).tolist()
    return sizes


def _starts(count: torch.Tensor) -> torch.Tensor:
    """Where each label begins."""
    return torch.cumsum(count, 0, dtype=torch.int32) - count
