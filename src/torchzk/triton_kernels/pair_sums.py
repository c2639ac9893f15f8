"""Affine additions of many pairs at once, with one inversion for all of them.

A lane goes through its K pairs and multiplies their runs, x_b - x_a, keeping every prefix of the
product; the products of the lanes are inverted together, in the same way; and the lane goes
back through its pairs, splitting the inverse off and finishing the sums: five products and a
square for each. Pairs of equal points, of opposite ones and with an infinite one stay out of the
product: where a block had one, it is flagged, and the block's sums are made again one by one.

Source: P. Montgomery's trick; affine chord and tangent rule.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl

from torchzk.errors import LayoutError
from torchzk.params.curves import Curve
from torchzk.params.fields import FP
from torchzk.triton_kernels import lazy, limbs, points
from torchzk.triton_kernels.code import FieldCode
from torchzk.triton_kernels.launch import launch, number_on, shape_on
from torchzk.triton_kernels.tuning import Shape
from torchzk.triton_kernels.variants import field_code_on

MINUS = 1 << 30
"""Flag of an index: the opposite of the point."""

_MINUS = tl.constexpr(MINUS)
# pairs of a lane at most: a block looks at its flags in one load
_MOST = tl.constexpr(64)


@dataclass(frozen=True)
class Pairs:
    """Pair i is row `stride i` of `left` and of `right`, or the two that `source[i]` names.

    Where there is no such row of `right`, or the second index is -1, the pair is one point. Points
    of `left` that `alone` names, int32, are no pairs: they are copied.
    """

    left: torch.Tensor
    right: torch.Tensor
    n: int
    stride: int = 1
    source: torch.Tensor | None = None
    alone: torch.Tensor | None = None


def neighbours(rows: torch.Tensor) -> Pairs:
    """Rows 0 and 1, 2 and 3, and so on; an odd one at the end stays alone."""
    return Pairs(rows, rows[1:], (len(rows) + 1) // 2, stride=2)


def named(rows: torch.Tensor, source: torch.Tensor, alone: torch.Tensor | None = None) -> Pairs:
    """Pairs of `rows` by index, int32 `[n, 2]`, and single ones; an index may carry `MINUS`."""
    if len(rows) > MINUS:
        raise LayoutError(f"of {len(rows)} points, an index names the first {MINUS} only")
    return Pairs(rows, rows, len(source), source=source.contiguous(), alone=alone)


@triton.jit
def _find(left, right, source, i, n_left, n_right, STRIDE: tl.constexpr, F: tl.constexpr):
    """Addresses of the two points of pair i, whether it is one point, and their signs."""
    size: tl.constexpr = 8 * F.W
    if STRIDE == 0:
        a = tl.load(source + 2 * i, mask=i < n_left, other=0)
        b = tl.load(source + 2 * i + 1, mask=i < n_left, other=-1)
        single = b < 0
        b = tl.where(single, a, b)
        minus_a = (a & _MINUS) != 0
        minus_b = (b & _MINUS) != 0
        at_a = points.address(left, (a & (_MINUS - 1)).to(tl.int64) * size)
        at_b = points.address(right, (b & (_MINUS - 1)).to(tl.int64) * size)
    else:
        row = i * STRIDE
        single = row >= n_right
        offset = tl.where(row < n_left, row, 0) * size
        at_a = points.address(left, offset)
        at_b = tl.where(single, at_a, points.address(right, offset))
        minus_a = single
        minus_b = single
    return at_a, at_b, single, minus_a, minus_b


@triton.jit
def _ordinate(at, minus, STRIDE: tl.constexpr, F: tl.constexpr):
    """y of the point at an address, with its sign."""
    y = points.load(at + 4 * F.W, F)
    if STRIDE == 0:
        y = limbs.select(minus, limbs.neg(y, F), y, F)
    return y


@triton.jit
def _lazy_ordinate(at, minus, STRIDE: tl.constexpr, F: tl.constexpr):
    """The same in [0, p]: of infinity, p in place of 0."""
    y = points.load(at + 4 * F.W, F)
    if STRIDE == 0:
        y = limbs.select(minus, lazy.neg(y, F), y, F)
    return y


@triton.jit
def _is_special(xa, xb, single):
    """Whether a pair needs more than the chord, as a point alone does if it is infinite."""
    return points.may_be_special(xa, xb) & (~single | (xa[0] == 0))


@triton.jit(do_not_specialize=["n_left", "n_right", "T", "K"])
def multiply_runs(
    prefix,
    product,
    flags,
    left,
    right,
    source,
    n_left,
    n_right,
    T,
    K,
    STRIDE: tl.constexpr,
    F: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Lane t: prefixes of the product of the runs of pairs t, t + T, ...."""
    block = tl.program_id(0).to(tl.int64)
    t = block * BLOCK + tl.arange(0, BLOCK)
    total = points.one(t, F)
    for k in range(K):
        i = t + k * T.to(tl.int64)
        at_a, at_b, single, _, _ = _find(left, right, source, i, n_left, n_right, STRIDE, F)
        xa = points.load(at_a, F)
        xb = points.load(at_b, F)
        special = _is_special(xa, xb, single)
        tl.store(flags + block * K + k, tl.max(special.to(tl.int8), 0))
        points.store(points.address(prefix, i * (4 * F.W)), total, F)
        more = lazy.mul(lazy.sub(xb, xa, F), total, F)
        total = limbs.select(single | special, total, more, F)
    points.store(points.address(product, t * (4 * F.W)), lazy.reduce(total, F), F)


@triton.jit(do_not_specialize=["n_left", "n_right", "T", "K"])
def finish_sums(
    out,
    prefix,
    inverse,
    left,
    right,
    source,
    n_left,
    n_right,
    T,
    K,
    STRIDE: tl.constexpr,
    F: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Lane t: the sums of its pairs, last to first, from the inverse of their product."""
    t = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    rest = points.load(points.address(inverse, t * (4 * F.W)), F)
    for k in range(K):
        i = t + (K - 1 - k) * T.to(tl.int64)
        at_a, at_b, single, minus_a, minus_b = _find(
            left, right, source, i, n_left, n_right, STRIDE, F
        )
        xa = points.load(at_a, F)
        xb = points.load(at_b, F)
        ya = _lazy_ordinate(at_a, minus_a, STRIDE, F)
        yb = _lazy_ordinate(at_b, minus_b, STRIDE, F)
        before = points.load(points.address(prefix, i * (4 * F.W)), F)
        rise = lazy.sub(yb, ya, F)
        x, y = lazy.third(xa, ya, xb, rise, lazy.mul(rest, before, F), F)
        skipped = single | _is_special(xa, xb, single)
        more = lazy.mul(lazy.sub(xb, xa, F), rest, F)
        rest = limbs.select(skipped, rest, more, F)
        at = points.address(out, i * (8 * F.W))
        points.store(at, limbs.select(single, xa, x, F), F)
        points.store(at + 4 * F.W, limbs.select(single, ya, y, F), F)


@triton.jit
def _add_any(out, left, right, source, i, n_left, n_right, STRIDE: tl.constexpr, F: tl.constexpr):
    """The sum of pair i, whatever its points are, with an inversion of its own."""
    at_a, at_b, single, minus_a, minus_b = _find(left, right, source, i, n_left, n_right, STRIDE, F)
    xa = points.load(at_a, F)
    xb = points.load(at_b, F)
    ya = _ordinate(at_a, minus_a, STRIDE, F)
    yb = _ordinate(at_b, minus_b, STRIDE, F)
    rise, run = points.line(xa, ya, xb, yb, F)
    x, y = lazy.third(xa, ya, xb, rise, points.inverse(run, F), F)
    x, y = points.settle(x, y, xa, ya, xb, yb, F)
    at = points.address(out, i * (8 * F.W))
    points.store(at, limbs.select(single, xa, x, F), F)
    points.store(at + 4 * F.W, limbs.select(single, ya, y, F), F)


@triton.jit(do_not_specialize=["n_left", "n_right"])
def add_alone(
    out,
    left,
    right,
    source,
    n_left,
    n_right,
    STRIDE: tl.constexpr,
    F: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """The sum of each pair."""
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    _add_any(out, left, right, source, i, n_left, n_right, STRIDE, F)


@triton.jit(do_not_specialize=["n_left", "n_right", "T", "K"])
def add_flagged(
    out,
    flags,
    left,
    right,
    source,
    n_left,
    n_right,
    T,
    K,
    STRIDE: tl.constexpr,
    F: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """The sums of the blocks that `multiply_runs` flagged, again."""
    block = tl.program_id(0).to(tl.int64)
    k_all = tl.arange(0, _MOST)
    flagged = tl.load(flags + block * K + k_all, mask=k_all < K, other=0)
    if tl.max(flagged, 0) > 0:
        t = block * BLOCK + tl.arange(0, BLOCK)
        for k in range(K):
            if tl.load(flags + block * K + k) > 0:
                i = t + k * T.to(tl.int64)
                _add_any(out, left, right, source, i, n_left, n_right, STRIDE, F)


@triton.jit(do_not_specialize=["n", "T", "K"])
def multiply_elements(prefix, product, a, n, T, K, F: tl.constexpr, BLOCK: tl.constexpr):
    """`multiply_runs` for elements that are there, `n` of them, none of them 0."""
    t = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    total = points.one(t, F)
    for k in range(K):
        i = t + k * T.to(tl.int64)
        points.store(points.address(prefix, i * (4 * F.W)), total, F)
        x = points.load(points.address(a, tl.where(i < n, i, 0) * (4 * F.W)), F)
        total = limbs.select(i < n, limbs.mul(total, x, F), total, F)
    points.store(points.address(product, t * (4 * F.W)), total, F)


@triton.jit(do_not_specialize=["n", "T", "K"])
def split_inverses(out, prefix, inverse, a, n, T, K, F: tl.constexpr, BLOCK: tl.constexpr):
    """The way back from `multiply_elements`: the inverse of each element."""
    t = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    rest = points.load(points.address(inverse, t * (4 * F.W)), F)
    for k in range(K):
        i = t + (K - 1 - k) * T.to(tl.int64)
        x = points.load(points.address(a, tl.where(i < n, i, 0) * (4 * F.W)), F)
        before = points.load(points.address(prefix, i * (4 * F.W)), F)
        points.store(points.address(out, i * (4 * F.W)), limbs.mul(rest, before, F), F)
        rest = limbs.select(i < n, limbs.mul(rest, x, F), rest, F)


@triton.jit(do_not_specialize=["n"])
def invert_each(out, a, n, F: tl.constexpr, BLOCK: tl.constexpr):
    """The inverse of each element."""
    t = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = points.load(points.address(a, tl.where(t < n, t, 0) * (4 * F.W)), F)
    points.store(points.address(out, t * (4 * F.W)), points.inverse(x, F), F)


@triton.jit(do_not_specialize=["n"])
def copy_points(out, rows, names, n, F: tl.constexpr, BLOCK: tl.constexpr):
    """Row i is the point that `names[i]` says, with its sign."""
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    # every lane stores: those past the end the first point once more
    i = tl.where(i < n, i, 0)
    name = tl.load(names + i)
    at = points.address(rows, (name & (_MINUS - 1)).to(tl.int64) * (8 * F.W))
    to = points.address(out, i * (8 * F.W))
    points.store(to, points.load(at, F), F)
    points.store(to + 4 * F.W, _ordinate(at, (name & _MINUS) != 0, 0, F), F)


def add_pairs(pairs: Pairs, curve: Curve) -> torch.Tensor:
    """The sum of each pair, and behind them the single points.

    Returns:
        Rows `[pairs.n + len(pairs.alone), *curve.row_shape]`, the start of a longer tensor.
    """
    n, device = pairs.n, pairs.left.device
    n_alone = 0 if pairs.alone is None else len(pairs.alone)
    if n + n_alone == 0:
        return pairs.left.new_empty(0, *curve.row_shape)
    code = field_code_on(device, curve.field, curve.degree)
    per_lane, lanes = _lanes(n, device)
    # lanes past the last pair write, too
    out = pairs.left.new_empty(max(per_lane * lanes, n + n_alone), *curve.row_shape)
    _add_all(out, pairs, per_lane, lanes, code)
    copied = (out[n:], pairs.left, pairs.alone, n_alone)
    launch(copy_points, n_alone, shape_on(device, "points", FP.n_limbs), device, *copied, F=code)
    return out[: n + n_alone]


def _add_all(out: torch.Tensor, pairs: Pairs, per_lane: int, lanes: int, code: FieldCode) -> None:
    """Write the sums of pairs."""
    n, device, shape = pairs.n, out.device, _shape(out.device)
    source = pairs.left if pairs.source is None else pairs.source
    n_left = len(pairs.left) if pairs.source is None else n
    where = (pairs.left, pairs.right, source, n_left, len(pairs.right))
    constants = {"STRIDE": pairs.stride if pairs.source is None else 0, "F": code}
    if per_lane == 1:
        launch(add_alone, lanes, shape, device, out, *where, **constants)
        return
    lanes_of = (*where, lanes, per_lane)
    prefix, product = _empty(per_lane * lanes, out, code), _empty(lanes, out, code)
    flags = torch.empty(lanes // shape.block, per_lane, dtype=torch.int8, device=device)
    launch(multiply_runs, lanes, shape, device, prefix, product, flags, *lanes_of, **constants)
    inverse = _invert(product, code)
    launch(finish_sums, lanes, shape, device, out, prefix, inverse, *lanes_of, **constants)
    launch(add_flagged, lanes, shape, device, out, flags, *lanes_of, **constants)


def _shape(device: torch.device) -> Shape:
    return shape_on(device, "pairs", FP.n_limbs)


def _empty(n: int, like: torch.Tensor, code: FieldCode) -> torch.Tensor:
    return torch.empty(n, code.W, dtype=torch.int32, device=like.device)


def _lanes(n: int, device: torch.device) -> tuple[int, int]:
    """Elements of a lane, and lanes, whole blocks of them."""
    block = _shape(device).block
    most = number_on(device, "pairs of a lane", FP.n_limbs, max(n, 1).bit_length() - 1)
    enough = number_on(device, "lanes of pairs", FP.n_limbs)
    per_lane = min(most, _MOST.value, max(1, -(-n // enough)))
    return per_lane, -(-n // (per_lane * block)) * block


def _invert(a: torch.Tensor, code: FieldCode) -> torch.Tensor:
    """Inverses of elements `[n, W]` none of which is 0; more rows may follow them."""
    n, device, shape = len(a), a.device, _shape(a.device)
    per_lane, lanes = _lanes(n, device)
    if per_lane == 1 or n <= number_on(device, "inverted alone", FP.n_limbs):
        lanes = -(-n // shape.block) * shape.block
        out = _empty(lanes, a, code)
        launch(invert_each, lanes, shape, device, out, a, n, F=code)
        return out
    prefix, product = _empty(per_lane * lanes, a, code), _empty(lanes, a, code)
    sizes = (n, lanes, per_lane)
    launch(multiply_elements, lanes, shape, device, prefix, product, a, *sizes, F=code)
    inverse = _invert(product, code)
    out = torch.empty_like(prefix)
    launch(split_inverses, lanes, shape, device, out, prefix, inverse, a, *sizes, F=code)
    return out
