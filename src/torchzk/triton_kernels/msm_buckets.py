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


@triton.jit(do_not_specialize=["n", "n_pairs", "period"])
def pair_keys(
    source,
    alone,
    labels,
    keys,
    index,
    start,
    pairs,
    singles,
    n,
    n_pairs,
    period,
    BLOCK: tl.constexpr,
):
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
    _name(source, alone, labels, pairs, singles, n_pairs, label, rank, a, b, first, paired)


@triton.jit
def _name(source, alone, labels, pairs, singles, n_pairs, label, rank, a, b, first, paired):
    """Write pairs (a, b), and the points that have no other, which lie behind all pairs' sums."""
    single = first & ~paired
    at = (tl.load(pairs + label, mask=paired, other=0) + (rank >> 1)).to(tl.int64)
    tl.store(source + 2 * at, a, mask=paired)
    tl.store(source + 2 * at + 1, b, mask=paired)
    tl.store(labels + at, label, mask=paired)
    at = tl.load(singles + label, mask=single, other=0).to(tl.int64)
    tl.store(alone + at, a, mask=single)
    tl.store(labels + n_pairs.to(tl.int64) + at, label, mask=single)


@triton.jit(do_not_specialize=["n", "n_before", "n_pairs"])
def pair_labels(
    source,
    alone,
    new_labels,
    labels,
    pairs_before,
    singles_before,
    pairs,
    singles,
    n,
    n_before,
    n_pairs,
    BLOCK: tl.constexpr,
):
    """Pair neighbours of one label: entry j is point j, a sum below n_before, else it was alone."""
    j = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = j < n
    label = tl.load(labels + j, mask=mask, other=0)
    begin = tl.load(pairs_before + label, mask=mask, other=0)
    end = tl.load(pairs_before + label + 1, mask=mask, other=0)
    row = tl.where(j < n_before, j.to(tl.int32), end)
    rank = row - begin
    first = mask & ((rank & 1) == 0)
    # the last sum of a label is followed by the point that was alone, if there was one
    last = first & (j < n_before) & (row + 1 == end)
    behind = tl.load(singles_before + label, mask=last, other=0)
    more = tl.load(singles_before + label + 1, mask=last, other=0) > behind
    paired = first & (((j < n_before) & (row + 1 < end)) | more)
    b = tl.where(last, n_before + behind, row + 1)
    _name(
        source, alone, new_labels, pairs, singles, n_pairs, label, rank, j.to(tl.int32), b,
        first, paired,
    )  # fmt: skip


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
        largest number of points has bits, each of them one batch over all labels. Where a round
        leaves a label's last point alone, it is copied, behind all sums.
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
    labels, before = keys, (start, start)
    period, n_before = len(rows), n
    for k, size in enumerate(_sizes(count, longest)):
        left = _left(count, k)
        now = (_starts(left >> 1), _starts(left & 1))
        del left
        # of n points two each, and those that stay alone, give so many
        n_pairs, n_alone = n - size, 2 * size - n
        source = torch.empty(n_pairs, 2, dtype=torch.int32, device=device)
        alone = torch.empty(n_alone, dtype=torch.int32, device=device)
        new_labels = torch.empty(size, dtype=torch.int32, device=device)
        found = (source, alone, new_labels)
        if k == 0:
            given = (keys, index, start, *now, n, n_pairs, period)
            launch(pair_keys, n, shape, device, *found, *given)
            del given, keys, index
        else:
            given = (labels, *before, *now, n, n_before, n_pairs)
            launch(pair_labels, n, shape, device, *found, *given)
            del given
        del found
        n, n_before, labels, before = size, n_pairs, new_labels, now
        rows = add_pairs(named(rows, source, alone), curve)
        del source, alone
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
    """Where each label begins, and where the last one ends."""
    starts = torch.zeros(len(count) + 1, dtype=torch.int32, device=count.device)
    torch.cumsum(count, 0, dtype=torch.int32, out=starts[1:])
    return starts
