"""Multi-scalar multiplication and bit sums, as Triton kernels."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import torch

from torchzk.errors import LayoutError
from torchzk.ops.chunks import ranges
from torchzk.ops.digits import unsigned_digits
from torchzk.ops.layout import check_msm, rows_to_points
from torchzk.params import integers
from torchzk.params.curves import Curve, Point
from torchzk.params.fields import FP
from torchzk.params.host_points import fold
from torchzk.triton_kernels import msm_reduce
from torchzk.triton_kernels.launch import aligned, number_on, on_device
from torchzk.triton_kernels.msm_buckets import sum_by_label
from torchzk.triton_kernels.msm_digits import (
    NO_KEY,
    Windows,
    digits,
    scalar_bound,
)

_LIMIT_BYTES = 40 << 30
_BIT_SUM_WINDOW = 12
# bits of a window
_MOST_BITS = 24
# points below which a limit is not kept
_FEWEST = 1024
# entries are counted in 31 bits, and an index of a point, or of a sum of two, has a sign besides
_MAX_POINTS = 1 << 29
_MAX_ENTRIES = 1 << 30


def msm(
    scalars: torch.Tensor, points: torch.Tensor, curve: Curve, *, limit_bytes: int = _LIMIT_BYTES
) -> Point:
    """sum_i scalars[i] * points[i]; see `torchzk.ops.msm`.

    `limit_bytes` bounds the scratch memory: of the windows as many are worked on at once as fit,
    and if not one does, the points are cut in pieces. A limit too small for a thousand points is
    not kept.
    """
    n = check_msm(scalars, points, curve)
    points = aligned(points)
    bound = scalar_bound(scalars) if n else 1
    if bound == 1:
        return None
    plan = cut(n, bound, curve, limit_bytes, points.device)
    windows = plan.windows
    with on_device(points.device):
        pieces = [
            list(_groups(scalars[:, piece], points[piece], plan, curve))
            for piece in ranges(n, plan.points)
        ]
        sums: list[torch.Tensor] = []
        for span in windows.spans:
            parts = [[x for x in piece if x.first in span] for piece in pieces]
            bits = torch.stack([torch.cat([x.bits for x in part]) for part in parts])
            tops = torch.stack([torch.cat([x.tops for x in part]) for part in parts])
            sums.append(msm_reduce.weigh(bits, tops, curve))
    found = rows_to_points(torch.cat(sums), curve)
    return fold({windows.start(w): p for w, p in enumerate(found)}, curve)


def bit_sums(
    scalars: torch.Tensor,
    points: torch.Tensor,
    curve: Curve,
    n_bits: int,
    *,
    limit_bytes: int = _LIMIT_BYTES,
) -> list[Point]:
    """For each bit the sum of the points whose scalar has it; see `torchzk.ops.bit_sums`."""
    n = check_msm(scalars, points, curve)
    if n and (scalar_bound(scalars) - 1) >> n_bits:
        raise LayoutError(f"scalars of bit sums are below 2^{n_bits}")
    if n == 0 or n_bits == 0:
        return [None] * n_bits
    points = aligned(points)
    n_windows = -(-n_bits // _BIT_SUM_WINDOW)
    size = max(_FEWEST, limit_bytes // (n_windows * _entry_bytes(curve)))
    size = min(size, _MAX_ENTRIES // n_windows)
    first_labels = torch.arange(n_windows, device=points.device).unsqueeze(1) << _BIT_SUM_WINDOW
    sums: list[Point] = [None] * n_bits
    with on_device(points.device):
        for piece in ranges(n, size):
            sizes = unsigned_digits(scalars[:, piece], _BIT_SUM_WINDOW, n_windows)
            keys = torch.where(sizes == 0, NO_KEY, 2 * (first_labels + sizes)).to(torch.int32)
            del sizes
            buckets = sum_by_label(points[piece], keys, n_windows << _BIT_SUM_WINDOW, curve)
            arrays = buckets.view(n_windows, 1 << _BIT_SUM_WINDOW, *curve.row_shape)
            by_bit = msm_reduce.sums_by_bit(arrays, curve).flatten(0, 1)
            part = rows_to_points(msm_reduce.affine(by_bit[:n_bits], curve), curve)
            sums = [integers.add(curve, a, b) for a, b in zip(sums, part, strict=True)]
    return sums


@dataclass(frozen=True)
class Cut:
    """How an MSM is cut to fit its scratch memory."""

    points: int
    """Points of a piece."""
    windows: Windows
    group: int
    """Windows of a piece that are worked on at once."""

    def window_bytes(self, curve: Curve) -> int:
        """What one window of a piece takes at most, see `cut`."""
        bucket = 40 + 240 * curve.degree
        return _entry_bytes(curve) * self.points + bucket * self.windows.most_sizes


def cut(n: int, bound: int, curve: Curve, limit_bytes: int, device: torch.device) -> Cut:
    """As few pieces as leave room for one window, and then as many windows at once as fit.

    The most memory is needed in the second round of pairs: for an entry, half of a sum of the
    first round and a quarter of one of the second and of a prefix, with labels and sources. For a
    bucket, counts and starts, its sum twice, and an eighth of it in XYZZ twice.
    """
    pieces = -(-n // _MAX_POINTS)
    while True:
        points = -(-n // pieces)
        windows = _windows(points, bound, device)
        one = Cut(points, windows, 1).window_bytes(curve)
        # a byte a point are carries
        room = limit_bytes - points
        if one <= room or points <= _FEWEST:
            return Cut(points, windows, max(1, min(room // one, _MAX_ENTRIES // points)))
        pieces += 1 + pieces // 16


class _Sums(NamedTuple):
    """What is left of some windows of one width."""

    first: int
    """The first of them."""
    bits: torch.Tensor
    """The sums by bit of the digit size, see `msm_reduce.sums_by_bit`."""
    tops: torch.Tensor
    """The sums of the largest digit size."""


def _groups(scalars: torch.Tensor, rows: torch.Tensor, plan: Cut, curve: Curve) -> Iterator[_Sums]:
    """The sums of all windows, as many of them at once as the plan says."""
    windows = plan.windows
    read = digits(scalars, windows)
    for first in range(0, windows.count, plan.group):
        last = min(first + plan.group, windows.count)
        keys = read.keys(first, last)
        buckets = sum_by_label(rows, keys, windows.labels(first, last), curve)
        for span in windows.spans:
            begin, end = max(first, span.start), min(last, span.stop)
            if begin < end:
                some = buckets[windows.labels(first, begin) : windows.labels(first, end)]
                arrays = some.view(end - begin, -1, *curve.row_shape)
                # the largest size stands at index 0
                yield _Sums(begin, msm_reduce.sums_by_bit(arrays, curve), arrays[:, 0].clone())
                del some, arrays
        del buckets


def _entry_bytes(curve: Curve) -> int:
    """Scratch of a point in one window, see `cut`."""
    return 7 + 84 * curve.degree


@lru_cache(maxsize=1 << 10)
def _windows(n: int, bound: int, device: torch.device) -> Windows:
    """The windows that need the least time, counted in additions; of two widths, so all are full.

    There are n in each window, what a bucket costs, what a round costs however few it adds, and
    what sums of few points at the end cost, of which there are two where there are two widths.
    """
    bucket = number_on(device, "bucket cost", FP.n_limbs) / 10
    a_round = number_on(device, "round cost", FP.n_limbs)
    a_width = number_on(device, "width cost", FP.n_limbs)

    def cost(windows: Windows) -> float:
        labels = windows.labels(0, windows.count)
        rounds = (n // min(windows.sizes, windows.last + 1)).bit_length()
        return windows.count * n + bucket * labels + a_round * rounds + a_width * len(windows.spans)

    def even(count: int) -> Windows:
        bits, wide = divmod(n_bits, count)
        return Windows(bits, bound, wide) if bits > 1 else Windows(2, bound)

    # the last digit is not negative, which takes a bit
    n_bits = max(2, (bound - 1).bit_length() + 1)
    # narrow windows are for few points only
    least = max(2, min(20, n.bit_length() - 9))
    counts = range(-(-n_bits // _MOST_BITS), -(-n_bits // least) + 1)
    return min(map(even, counts), key=cost)
