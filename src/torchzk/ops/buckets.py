"""Sums of points that share a label, for any number of labels at once."""

from __future__ import annotations

import torch

from torchzk.ops import wide_points
from torchzk.ops.chunks import point_chunk_size, ranges
from torchzk.params.curves import Curve


class PointPool:
    """Packed points and, after them, sums as they are made.

    A point is named by its index, so that one which waits for a partner never moves.
    """

    def __init__(self, points: torch.Tensor, curve: Curve) -> None:
        self._curve = curve
        self._packed = points
        self._used = points.shape[0]

    def reserve(self, n: int) -> None:
        """Make room for `n` sums."""
        if self._used + n > len(self._packed):
            size = max(self._used + n, 2 * len(self._packed))
            grown = self._packed.new_empty(size, self._packed.shape[1])
            grown[: self._used] = self._packed[: self._used]
            self._packed = grown

    def packed(self, index: torch.Tensor) -> torch.Tensor:
        """The points named by `index`, packed."""
        return self._packed[index]

    def points(self, index: torch.Tensor) -> torch.Tensor:
        """The points named by `index`, float64 `[2, d, W, n]`."""
        return wide_points.unpack_points(self._packed[index], self._curve)

    def add(self, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        """Sums of two points each; their indices, int64 of the shape of `left`."""
        start = self._used
        self.reserve(len(left))
        for piece in ranges(len(left), point_chunk_size(left.device)):
            p, q = self.points(left[piece]), self.points(right[piece])
            total = wide_points.pack_points(wide_points.add(p, q, self._curve))
            self._packed[self._used : self._used + len(total)] = total
            self._used += len(total)
        return torch.arange(start, self._used, device=left.device)


def sum_by_label(
    labels: torch.Tensor, index: torch.Tensor, pool: PointPool
) -> tuple[torch.Tensor, torch.Tensor]:
    """One sum for each label.

    Args:
        labels: int64 `[n]`, ascending.
        index: int64 `[n]`: the point of `pool` that carries each label.
        pool: Gains a sum for each label less than there are points.

    Returns:
        The distinct labels, ascending, and the index of each one's sum.

    Source:
        Neighbours of one label are added in pairs until each stands alone: as many rounds as the
        longest run has bits, each of them one batch over all labels.
    """
    done_labels, done_index = [], []
    pool.reserve(len(labels) - len(torch.unique_consecutive(labels)))
    while True:
        rank, length = _runs(labels)
        alone = length == 1
        done_labels.append(labels[alone])
        done_index.append(index[alone])
        left = torch.nonzero((rank % 2 == 0) & ~alone).squeeze(1)
        if not len(left):
            break
        paired = rank[left] + 1 < length[left]
        waiting = index[left]
        waiting[paired] = pool.add(waiting[paired], index[left[paired] + 1])
        labels, index = labels[left], waiting
    labels, order = torch.cat(done_labels).sort()
    return labels, torch.cat(done_index)[order]


def _runs(labels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Each element's place in its run of equal labels, and that run's length."""
    _, counts = torch.unique_consecutive(labels, return_counts=True)
    starts = counts.cumsum(0) - counts
    rank = torch.arange(len(labels), device=labels.device) - starts.repeat_interleave(counts)
    return rank, counts.repeat_interleave(counts)


def bit_sums_of_labels(
    labels: torch.Tensor, index: torch.Tensor, bits: int, pool: PointPool
) -> tuple[torch.Tensor, torch.Tensor]:
    """Sums of the points of each window whose digit has a given bit.

    Args:
        labels: int64 `[n]`, ascending and distinct: window * 2^bits + digit, digits not zero.
        index: int64 `[n]`: the point of `pool` that carries each label.
        bits: Bits of a digit.
        pool: Gains the sums.

    Returns:
        Ascending int64 positions window * bits + bit, those of no point left out, and the index
        of each one's sum.

    Source:
        sum_j j B_j = sum_k 2^k S_k where S_k sums the odd entries of T_k, T_0 = B and
        T_(k+1)[j] = T_k[2 j] + T_k[2 j + 1]: two additions a bucket when all are in use, in as
        many batches as a digit has bits.
    """
    positions, chosen = [], []
    for k in range(bits):
        odd = labels & 1 == 1
        positions.append((labels[odd] >> bits - k) * bits + k)
        chosen.append(index[odd])
        # the digit that is left may be zero: such a point has no higher bit
        more = labels & (1 << bits - k) - 1 > 1
        labels, index = sum_by_label(labels[more] >> 1, index[more], pool)
    position, order = torch.cat(positions).sort(stable=True)
    return sum_by_label(position, torch.cat(chosen)[order], pool)
