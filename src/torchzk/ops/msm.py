"""Reference multi-scalar multiplication: digits, buckets and bit sums, in plain PyTorch."""

from __future__ import annotations

import torch

from torchzk.errors import LayoutError
from torchzk.ops import wide_points
from torchzk.ops.buckets import PointPool, bit_sums_of_labels, sum_by_label
from torchzk.ops.chunks import point_chunk_size, ranges
from torchzk.ops.digits import signed_digits, signed_windows, unsigned_digits
from torchzk.ops.layout import check_msm, rows_to_points
from torchzk.params import integers
from torchzk.params.curves import Curve, Point
from torchzk.params.fields import LIMB_BITS

# wider windows of a bit sum would have more buckets than there are points
_BIT_SUM_WINDOW = 12
_LIMIT_BYTES = 1 << 29


def msm(
    scalars: torch.Tensor, points: torch.Tensor, curve: Curve, *, limit_bytes: int = _LIMIT_BYTES
) -> Point:
    """sum_i scalars[i] * points[i].

    Args:
        scalars: int32 limbs `[L, n]` of `curve.scalars` in canonical form, not Montgomery form.
        points: Affine rows `[n, *curve.row_shape]`, Montgomery form; infinite, equal and opposite
            ones may be among them, and they need not lie in the subgroup.
        curve: G1 or G2.
        limit_bytes: Bound on scratch memory, in bytes. The points are worked on in as many pieces
            as it takes, at least 1,024 at once; the result does not depend on it.

    Returns:
        The sum in canonical integers, None if it is infinite.

    Raises:
        LayoutError: Not a limb tensor, not a row tensor, or they differ in length.

    Source:
        Pippenger's buckets over signed digits; bucket sums by pairs, see `torchzk.ops.buckets`.
    """
    n = check_msm(scalars, points, curve)
    bits = _window_bits(n, curve)
    sums: dict[int, Point] = {}
    size = _piece(signed_windows(scalars.shape[0], bits), curve, limit_bytes)
    for piece in ranges(n, size):
        base = _pack(points[piece], curve, signed=True)
        digits = signed_digits(scalars[:, piece], bits)
        # the opposites follow the points
        count = digits.shape[1]
        index = torch.arange(count, device=points.device) + (digits < 0) * count
        _accumulate(sums, digits.abs(), index, base, bits, curve)
    return _fold(sums, curve)


def bit_sums(
    scalars: torch.Tensor,
    points: torch.Tensor,
    curve: Curve,
    n_bits: int,
    *,
    limit_bytes: int = _LIMIT_BYTES,
) -> list[Point]:
    """For each bit the sum of the points whose scalar has it: one MSM without the doublings.

    With random scalars every sum is that of a random half of the points, so a point outside the
    subgroup leaves all of them inside with probability 2^-n_bits at most.

    Args:
        scalars: int32 limbs `[L, n]` of `curve.scalars`, canonical form, below 2^n_bits.
        points: Affine rows `[n, *curve.row_shape]`, as for `msm`.
        curve: G1 or G2.
        n_bits: Number of sums.
        limit_bytes: As for `msm`.

    Returns:
        `n_bits` sums in canonical integers, that of bit 0 first.

    Raises:
        LayoutError: As for `msm`, or a scalar has more than `n_bits` bits.
    """
    n = check_msm(scalars, points, curve)
    if _any_bit_above(scalars, n_bits):
        raise LayoutError(f"scalars of bit sums are below 2^{n_bits}")
    n_windows = -(-n_bits // _BIT_SUM_WINDOW)
    sums: dict[int, Point] = {}
    for piece in ranges(n, _piece(n_windows, curve, limit_bytes)):
        base = _pack(points[piece], curve, signed=False)
        digits = unsigned_digits(scalars[:, piece], _BIT_SUM_WINDOW, n_windows)
        index = torch.arange(digits.shape[1], device=points.device).expand_as(digits)
        _accumulate(sums, digits, index, base, _BIT_SUM_WINDOW, curve)
    return [sums.get(k) for k in range(n_bits)]


def _any_bit_above(scalars: torch.Tensor, n_bits: int) -> bool:
    limb, shift = divmod(n_bits, LIMB_BITS)
    beyond = scalars[limb:].to(torch.int64) & 0xFFFFFFFF
    if shift and len(beyond):
        beyond[0] >>= shift
    return bool(beyond.any())


def _window_bits(n: int, curve: Curve) -> int:
    """The window that needs the fewest additions: n in each window, and two for each bucket."""
    n_limbs = curve.scalars.n_limbs
    return min(range(2, 17), key=lambda c: signed_windows(n_limbs, c) * (n + (1 << c)))


def _piece(n_windows: int, curve: Curve, limit_bytes: int) -> int:
    """How many points' digits, sums and sorting fit in `limit_bytes`."""
    # a packed point and ten int64 of labels and indices for each digit, and the points twice
    point = 4 * wide_points.packed_width(curve)
    return max(1024, limit_bytes // (n_windows * (point + 80) + 2 * point))


def _pack(rows: torch.Tensor, curve: Curve, signed: bool) -> torch.Tensor:
    """Rows to packed points, followed by their opposites if `signed`."""
    plus, minus = [], []
    for piece in ranges(rows.shape[0], point_chunk_size(rows.device)):
        p = wide_points.from_rows(rows[piece], curve)
        plus.append(wide_points.pack_points(p))
        if signed:
            minus.append(wide_points.pack_points(wide_points.negate(p)))
    return torch.cat(plus + minus)


def _accumulate(
    sums: dict[int, Point],
    digits: torch.Tensor,
    index: torch.Tensor,
    base: torch.Tensor,
    bits: int,
    curve: Curve,
) -> None:
    """Add to `sums`, by bit position, the points `base[index[w, i]]` of digit `digits[w, i]`."""
    windows = torch.arange(digits.shape[0], device=digits.device).unsqueeze(1)
    some = digits != 0
    labels, order = ((windows << bits) + digits)[some].sort()
    pool = PointPool(base, curve)
    labels, index = sum_by_label(labels, index[some][order], pool)
    # the points have gone into their buckets: keep only those
    pool = PointPool(pool.packed(index), curve)
    index = torch.arange(len(index), device=digits.device)
    positions, index = bit_sums_of_labels(labels, index, bits, pool)
    rows = wide_points.to_rows(pool.points(index), curve)
    for position, point in zip(positions.tolist(), rows_to_points(rows, curve), strict=True):
        sums[position] = integers.add(curve, sums.get(position), point)


def _fold(sums: dict[int, Point], curve: Curve) -> Point:
    """sum_k 2^k sums[k], by Horner's rule."""
    total: Point = None
    for k in reversed(range(max(sums, default=-1) + 1)):
        total = integers.add(curve, integers.add(curve, total, total), sums.get(k))
    return total
