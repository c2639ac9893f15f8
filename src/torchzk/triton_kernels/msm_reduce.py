"""Sums over dense arrays of points: totals, sums by bit of the index, and their weighted sums.

Few points are left here, so lanes matter more than products: every lane adds a few in XYZZ
coordinates, and nothing is inverted before the end.
"""

# mypy: disable-error-code="assignment, misc"
from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
import triton
import triton.language as tl

from torchzk.params.curves import Curve
from torchzk.params.fields import FP
from torchzk.triton_kernels import beside, limbs, points, xyzz
from torchzk.triton_kernels.code import FieldCode
from torchzk.triton_kernels.launch import launch, number_on, shape_on
from torchzk.triton_kernels.tuning import Shape
from torchzk.triton_kernels.variants import field_code_on

_Launches = list[Callable[[], None]]


@triton.jit(do_not_specialize=["n", "m", "pieces", "inner", "width", "run"])
def add_runs(
    out,
    a,
    n,
    m,
    pieces,
    inner,
    width,
    run,
    AFFINE: tl.constexpr,
    F: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Lane (o, q, i): the sum of a[o, j, i] for the j of piece q, `run` of them, all below m.

    With a `width` (and inner = 1), o is an array and a bit of its index: a[o // width] has 2 m
    points, and the sum is of those whose index has bit o % width.
    """
    t = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    lane = tl.where(t < n, t, 0)
    i = lane % inner
    q = lane // inner % pieces
    o = lane // inner // pieces
    bit = o % tl.maximum(width, 1)
    total = xyzz.infinity(t, F)
    for k in range(run):
        j = q * run + k
        inside = j < m
        j = tl.where(inside, j, 0)
        chosen = ((j >> bit) << (bit + 1)) | (1 << bit) | (j & ((1 << bit) - 1))
        plain = (o * m + j) * inner + i
        index = tl.where(width > 0, o // tl.maximum(width, 1) * 2 * m + chosen, plain)
        if AFFINE:
            at = points.address(a, index * (8 * F.W))
            x = points.load(at, F)
            y = points.load(at + 4 * F.W, F)
            none = points.zero(t, F)
            x = limbs.select(inside, x, none, F)
            y = limbs.select(inside, y, none, F)
            total = xyzz.add_affine(total, x, y, F)
        else:
            p = xyzz.load(points.address(a, index * (16 * F.W)), F)
            p = xyzz.select(inside, p, xyzz.infinity(t, F), F)
            total = xyzz.add(total, p, F)
    xyzz.store(points.address(out, t * (16 * F.W)), total, F)


@triton.jit(do_not_specialize=["n", "width"])
def weigh_bits(out, a, first, n, width, F: tl.constexpr, BLOCK: tl.constexpr):
    """Lane w: 2^width first[w] + sum_b 2^b a[w, b]."""
    t = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    lane = tl.where(t < n, t, 0)
    total = xyzz.load(points.address(first, lane * (16 * F.W)), F)
    # twice as many steps, so that there is one addition to compile: of itself, then of the next
    for k in range(2 * width):
        index = lane * width + (width - 1 - k // 2)
        more = xyzz.load(points.address(a, index * (16 * F.W)), F)
        total = xyzz.add(total, xyzz.select(k % 2 == 0, total, more, F), F)
    xyzz.store(points.address(out, t * (16 * F.W)), total, F)


@triton.jit(do_not_specialize=["n"])
def make_affine(out, a, n, F: tl.constexpr, BLOCK: tl.constexpr):
    """Lane i: point i as an affine row."""
    t = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    lane = tl.where(t < n, t, 0)
    p = xyzz.load(points.address(a, lane * (16 * F.W)), F)
    x, y = xyzz.to_affine(p, points.inverse(p[3], F), F)
    at = points.address(out, t * (8 * F.W))
    points.store(at, x, F)
    points.store(at + 4 * F.W, y, F)


def total(rows: torch.Tensor, curve: Curve) -> torch.Tensor:
    """The sum of affine rows `[n, *curve.row_shape]`: one row `[1, *curve.row_shape]`."""
    return affine(_sums(rows.contiguous(), 1, len(rows), 1, curve), curve)


def sums_by_bit(arrays: torch.Tensor, curve: Curve) -> torch.Tensor:
    """For each array and each bit of an index, the sum of the points whose index has the bit.

    Args:
        arrays: Affine rows `[w, 2^b, *curve.row_shape]`.
        curve: G1 or G2.

    Returns:
        XYZZ rows, int32 `[w, b, 4 W]`, lowest bit first.

    Source:
        An index is a row and a column of a square, whose sums by row and by column take two
        additions a point; the bits of those are sums of few.
    """
    w, n = arrays.shape[:2]
    width = n.bit_length() - 1
    low = width // 2
    columns, rows = 1 << low, 1 << width - low
    arrays = arrays.contiguous()
    # nothing is allocated or let go of while they are launched
    here, there = _Launches(), _Launches()
    of_low = _by_bit(_sums(arrays, w, rows, columns, curve, here), w, low, curve, here)
    of_high = _by_bit(
        _sums(arrays, w * rows, columns, 1, curve, there), w, width - low, curve, there
    )
    _launch_both(here, there, arrays.device, w * n)
    words = of_low.shape[1]
    return torch.cat((of_low.view(w, low, words), of_high.view(w, width - low, words)), 1)


def _launch_both(here: _Launches, there: _Launches, device: torch.device, n: int) -> None:
    """Launches that know nothing of each other, of `n` points, beside each other if it is worth it.

    At the end of each, sums of few leave most of the card to the others.
    """
    log_n = n.bit_length() - 1
    if number_on(device, "sums beside", FP.n_limbs, log_n) == 0:
        for start in (*there, *here):
            start()
        return
    beside.fork(device)
    try:
        with beside.beside(device):
            for start in there:
                start()
        for start in here:
            start()
    finally:
        # whatever went wrong: tensors are let go of
        beside.join(device)


def weigh(bits: torch.Tensor, tops: torch.Tensor, curve: Curve) -> torch.Tensor:
    """Window sums of pieces from what `sums_by_bit` gives: sum_b 2^b bits[b] + 2^width top.

    Args:
        bits: XYZZ rows `[pieces, w, width, 4 W]`.
        tops: Affine rows `[pieces, w, *curve.row_shape]`.
        curve: G1 or G2.

    Returns:
        Affine rows `[w, *curve.row_shape]`, summed over the pieces.
    """
    pieces, w, width, words = bits.shape
    added = _finish(bits.reshape(-1, words), 1, pieces, w * width, curve)
    first = _sums(tops.contiguous(), 1, pieces, w, curve)
    code = _code(tops, curve)
    out = _empty(w, tops, code)
    launch(weigh_bits, w, _shape(out), out.device, out, added, first, w, width, F=code)
    return affine(out[:w], curve)


def affine(a: torch.Tensor, curve: Curve) -> torch.Tensor:
    """XYZZ rows `[n, 4 W]` to affine rows `[n, *curve.row_shape]`."""
    n = len(a)
    out = a.new_empty(_whole_blocks(n, a), *curve.row_shape)
    launch(make_affine, n, _shape(a), a.device, out, a, n, F=_code(a, curve))
    return out[:n]


def _sums(
    a: torch.Tensor, outer: int, m: int, inner: int, curve: Curve, later: _Launches | None = None
) -> torch.Tensor:
    """Affine rows `[outer, m, inner, ...]`, summed over m: XYZZ rows `[outer * inner, 4 W]`."""
    out, m = _add(a, outer, m, inner, curve, later, affine=True)
    return _finish(out, outer, m, inner, curve, later)


def _by_bit(
    a: torch.Tensor, arrays: int, width: int, curve: Curve, later: _Launches
) -> torch.Tensor:
    """XYZZ rows `[arrays, 2^width, 4 W]` to sums by bit `[arrays * width, 4 W]`."""
    if width == 0:
        return a[:0]
    out, m = _add(a, arrays * width, 1 << width - 1, 1, curve, later, width=width)
    return _finish(out, arrays * width, m, 1, curve, later)


def _finish(
    a: torch.Tensor, outer: int, m: int, inner: int, curve: Curve, later: _Launches | None = None
) -> torch.Tensor:
    while m > 1:
        a, m = _add(a, outer, m, inner, curve, later)
    return a


def _add(
    a: torch.Tensor,
    outer: int,
    m: int,
    inner: int,
    curve: Curve,
    later: _Launches | None = None,
    *,
    affine: bool = False,
    width: int = 0,
) -> tuple[torch.Tensor, int]:
    """Sums of runs, and how many of them take the place of m points; launched now, or later."""
    code = _code(a, curve)
    run = min(m, number_on(a.device, "points of a lane", FP.n_limbs))
    pieces = -(-m // run)
    n = outer * pieces * inner
    out = _empty(n, a, code)
    args = (out, a, n, m, pieces, inner, width, run)
    start = partial(launch, add_runs, n, _shape(a), a.device, *args, AFFINE=affine, F=code)
    if later is None:
        start()
    else:
        later.append(start)
    return out[:n], pieces


def _code(a: torch.Tensor, curve: Curve) -> FieldCode:
    return field_code_on(a.device, curve.field, curve.degree)


def _shape(a: torch.Tensor) -> Shape:
    return shape_on(a.device, "sums", FP.n_limbs)


def _whole_blocks(n: int, a: torch.Tensor) -> int:
    """Rows for every lane that is launched for n."""
    block = _shape(a).block
    return -(-n // block) * block


def _empty(n: int, like: torch.Tensor, code: FieldCode) -> torch.Tensor:
    rows = _whole_blocks(n, like)
    return torch.empty(rows, 4 * code.W, dtype=torch.int32, device=like.device)
