"""Multi-scalar multiplication, bit sums and sums of chosen points, as Triton kernels."""

from __future__ import annotations

import torch

from torchzk.errors import LayoutError
from torchzk.ops.chunks import ranges
from torchzk.ops.digits import unsigned_digits
from torchzk.ops.layout import check_limbs, check_rows, rows_to_points
from torchzk.params import integers
from torchzk.params.curves import Curve, Point
from torchzk.triton_kernels.launch import on_device
from torchzk.triton_kernels.msm_buckets import sum_by_label
from torchzk.triton_kernels.msm_digits import Windows, offset_planes, scalar_bits, window_keys
from torchzk.triton_kernels.msm_fold import fold
from torchzk.triton_kernels.msm_reduce import Weighted, bit_positions
from torchzk.triton_kernels.pair_sums import add_pairs, named, neighbours

_LIMIT_BYTES = 40 << 30
_BIT_SUM_WINDOW = 12
# an index has a sign, and entries of all windows of a group are counted in 31 bits
_MAX_POINTS = 1 << 29
_MAX_ENTRIES = (1 << 31) - 1


def msm(
    scalars: torch.Tensor, points: torch.Tensor, curve: Curve, *, limit_bytes: int = _LIMIT_BYTES
) -> Point:
    """sum_i scalars[i] * points[i]; see `torchzk.ops.msm`.

    `limit_bytes` bounds the scratch memory: of the windows as many are worked on at once as fit,
    and if not one does, the points are cut in pieces.
    """
    n = _check(scalars, points, curve)
    points = points.contiguous()
    sums: dict[int, Point] = {}
    n_bits = scalar_bits(scalars) if n else 0
    if n_bits == 0:
        return None
    with on_device(points.device):
        for piece in ranges(n, _piece(1, curve, limit_bytes)):
            part = _buckets(scalars[:, piece], points[piece], n_bits, curve, limit_bytes)
            _merge(sums, bit_positions(part, curve), curve)
    return fold(sums, curve)


def bit_sums(
    scalars: torch.Tensor,
    points: torch.Tensor,
    curve: Curve,
    n_bits: int,
    *,
    limit_bytes: int = _LIMIT_BYTES,
) -> list[Point]:
    """For each bit the sum of the points whose scalar has it; see `torchzk.ops.bit_sums`."""
    n = _check(scalars, points, curve)
    if n and scalar_bits(scalars) > n_bits:
        raise LayoutError(f"scalars of bit sums are below 2^{n_bits}")
    points = points.contiguous()
    n_windows = -(-n_bits // _BIT_SUM_WINDOW)
    positions = tuple(_BIT_SUM_WINDOW * w for w in range(n_windows))
    slots = torch.arange(n_windows, device=points.device).unsqueeze(1) << _BIT_SUM_WINDOW
    sums: dict[int, Point] = {}
    with on_device(points.device):
        for piece in ranges(n, _piece(n_windows, curve, limit_bytes)):
            rows = points[piece]
            digits = unsigned_digits(scalars[:, piece], _BIT_SUM_WINDOW, n_windows)
            keys, order = (2 * (slots + digits)).to(torch.int32).flatten().sort()
            n_labels = n_windows << _BIT_SUM_WINDOW
            labels, totals = sum_by_label(rows, keys, order, n_labels, curve)
            part = Weighted(labels, totals, positions, _BIT_SUM_WINDOW)
            _merge(sums, bit_positions(part, curve), curve)
    return [sums.get(k) for k in range(n_bits)]


def batch_add(points: torch.Tensor, chosen: torch.Tensor | None, curve: Curve) -> Point:
    """The sum of all points, or of those chosen.

    Args:
        points: Affine rows `[n, *curve.row_shape]`, as for `msm`.
        chosen: bool `[n]`, or int64 indices `[m]`, in which an index may come again; None for all.
        curve: G1 or G2.

    Returns:
        The sum in canonical integers, None if it is infinite.

    Raises:
        LayoutError: Not a row tensor, or `chosen` does not fit it.
    """
    check_rows(points, curve)
    rows = points.contiguous()
    with on_device(rows.device):
        if chosen is not None:
            rows = _first_round(rows, chosen, curve)
        while len(rows) > 1:
            rows = add_pairs(neighbours(rows), curve)
    return rows_to_points(rows, curve)[0] if len(rows) else None


def _first_round(rows: torch.Tensor, chosen: torch.Tensor, curve: Curve) -> torch.Tensor:
    """Sums of two chosen points each."""
    if chosen.dtype == torch.bool and chosen.shape == rows.shape[:1]:
        chosen = chosen.nonzero().squeeze(1)
    elif chosen.dtype != torch.int64 or chosen.ndim != 1:
        raise LayoutError(f"{chosen.dtype} {list(chosen.shape)} chooses none of {len(rows)} points")
    elif len(chosen) and not 0 <= int(chosen.min()) <= int(chosen.max()) < len(rows):
        raise LayoutError(f"an index is outside the {len(rows)} points")
    source = chosen.to(torch.int32)
    if len(source) % 2:
        source = torch.nn.functional.pad(source, (0, 1), value=-1)
    return add_pairs(named(rows, source.view(-1, 2)), curve)


def _buckets(
    scalars: torch.Tensor, rows: torch.Tensor, n_bits: int, curve: Curve, limit_bytes: int
) -> Weighted:
    """The sums of all buckets, a group of windows after the other."""
    n = len(rows)
    windows = Windows(_window_bits(n, n_bits), n_bits)
    planes = offset_planes(scalars, windows)
    # beside the groups there are the digits' planes and the sums of the buckets
    rest = 36 * n + 100 * curve.degree * windows.labels(0, windows.count)
    group = max(1, min((limit_bytes - rest) // (n * _entry_bytes(curve)), _MAX_ENTRIES // n))
    width = max(windows.bits, windows.largest.bit_length())
    labels, sums = [], []
    for first in range(0, windows.count, group):
        last = min(first + group, windows.count)
        keys, order = window_keys(planes, windows, first, last).flatten().sort()
        if last == windows.count:
            del planes
        found, totals = sum_by_label(rows, keys, order, windows.labels(first, last), curve)
        del keys, order
        # the last window may have more buckets than the others
        window = (found // windows.buckets).clamp(max=last - 1 - first)
        weight = found - window * windows.buckets + 1
        labels.append((window + first << width) + weight)
        sums.append(totals)
    positions = tuple(windows.bits * w for w in range(windows.count))
    if len(sums) == 1:
        return Weighted(labels[0], sums[0], positions, width)
    return Weighted(torch.cat(labels), torch.cat(sums), positions, width)


def _entry_bytes(curve: Curve) -> int:
    """Scratch for one point in one window.

    At its peak, in the second round, half a sum of the first, a quarter of a sum and an eighth of
    a prefix, with keys and indices: 107 bytes were measured in G1.
    """
    return 84 * curve.degree + 24


def _piece(n_windows: int, curve: Curve, limit_bytes: int) -> int:
    """How many points are worked on at once: as many as fit with their digits."""
    return min(_MAX_POINTS, max(1024, limit_bytes // (n_windows * _entry_bytes(curve) + 76)))


def _window_bits(n: int, n_bits: int) -> int:
    """The window that needs the fewest additions: n in each, and somewhat over two a bucket."""

    def cost(c: int) -> float:
        windows = Windows(c, n_bits)
        return windows.count * n + 2.6 * windows.labels(0, windows.count)

    return min(range(2, 25), key=cost)


def _merge(sums: dict[int, Point], more: dict[int, Point], curve: Curve) -> None:
    for k, point in more.items():
        sums[k] = integers.add(curve, sums.get(k), point)


def _check(scalars: torch.Tensor, points: torch.Tensor, curve: Curve) -> int:
    check_limbs(scalars, curve.scalars)
    check_rows(points, curve)
    if scalars.ndim != 2 or scalars.shape[1] != points.shape[0]:
        raise LayoutError(f"scalars {list(scalars.shape)} do not match {points.shape[0]} points")
    if scalars.device != points.device:
        raise LayoutError(f"scalars on {scalars.device}, points on {points.device}")
    return points.shape[0]
