"""Kernels of the transforms: each reads and writes every element once and does up to 3 stages.

Vectors of n elements lie side by side, in planes `[8, n_vectors * n]` or in rows
`[n_vectors * n, 8]`. Rows are quicker where the distance is large, as a warp's access then touches
an eighth of the pages; planes are, where neighbours are transformed. A lane takes 2^RL elements
at distance M = 2^log_m: those of one column of a block of 2^RL M. `n_lanes` counts them over all
vectors. Every kernel but the last may work in place, since a lane reads what it writes and nothing
else. Where it does, it is still given the tensor twice, and the distance of planes too: with one
name for both, the compiler keeps the addresses of 64 words in registers from load to store.
"""

# in kernels a tuple grows
# mypy: disable-error-code="assignment, var-annotated"
from __future__ import annotations

import triton
import triton.language as tl

from torchzk.triton_kernels import limbs
from torchzk.triton_kernels.butterflies import (
    back,
    canonical,
    entry,
    forth,
    load_all,
    minus,
    near,
    store_all,
    times,
)

_SIZES = ["plane_out", "plane_in", "first_lane", "n_lanes", "log_m", "log_order", "log_group"]


@triton.jit
def _turned(lane, log_m, log_group):
    """32 columns of each of 2^log_group blocks, then the next 32: a permutation of lane's bits."""
    log_width = log_m - 5
    block = (lane >> 5) & ((tl.cast(1, tl.int64) << log_group) - 1)
    rest = lane >> (5 + log_group)
    width = rest & ((tl.cast(1, tl.int64) << log_width) - 1)
    high = (rest >> log_width) << (log_m + log_group)
    return high | (block << log_m) | (width << 5) | (lane & 31)


@triton.jit
def _place(first_lane, n_lanes, log_m, log_group, RL: tl.constexpr, BLOCK: tl.constexpr):
    """Column and first element of each lane from the first on, and whether the lane exists.

    Lanes go through the blocks in groups of 2^log_group, where a block has 32 columns or more, so
    that warps of one program, and programs at about the same time, read the same constants.
    """
    first = tl.program_id(0).to(tl.int64) * BLOCK
    within = tl.arange(0, BLOCK).to(tl.int64)
    lane = first + within
    mask = lane < n_lanes
    grouped = log_m + log_group
    n_grouped = tl.where(log_m >= 5, (tl.cast(n_lanes, tl.int64) >> grouped) << grouped, 0)
    # bit by bit, so that what the lanes of a program have in common is turned once
    wide = tl.maximum(log_m, 5)
    turned = _turned(first, wide, log_group) | _turned(within, wide, log_group)
    lane = tl.where(lane < n_grouped, turned, lane)
    # one that does not exist reads what the last one reads
    lane = tl.where(mask, lane, tl.cast(n_lanes, tl.int64) - 1) + first_lane
    col = lane & ((tl.cast(1, tl.int64) << log_m) - 1)
    base = ((lane - col) << RL) + col
    return col, base, mask


@triton.jit
def _address(ptr, like):
    """The pointer as one uint64 for each element of `like`."""
    return ptr.to(tl.uint64) + tl.zeros_like(like).to(tl.uint64)


@triton.jit(do_not_specialize=_SIZES)
def forth_kernel(
    out_ptr,  # planes, plane_out words apart
    in_ptr,  # planes, plane_in words apart
    table_ptr,  # [N + 1, 16] int32; if SHORT, as `twiddles.short_roots` has it
    plane_out,
    plane_in,
    first_lane,  # a multiple of 2^log_m
    n_lanes,
    log_m,
    log_order,  # log2 N, unless SHORT
    log_group,
    RL: tl.constexpr,
    INVERSE: tl.constexpr,
    COSET: tl.constexpr,
    UNIT: tl.constexpr,  # log_m is 0, which makes this the last pass
    SHORT: tl.constexpr,
    IN_ROWS: tl.constexpr,
    OUT_ROWS: tl.constexpr,
    T: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Stages of the transform from natural order to bit-reversed; canonical if UNIT, else near."""
    m = tl.cast(log_m, tl.int64)
    order = tl.cast(log_order, tl.int64)
    col, base, mask = _place(first_lane, n_lanes, m, tl.cast(log_group, tl.int64), RL, BLOCK)
    xs = load_all(in_ptr, tl.cast(plane_in, tl.int64), base, m, mask, RL, UNIT, IN_ROWS, T)
    table = _address(table_ptr, base)
    xs = forth(xs, table, col, m, order, RL, INVERSE, COSET, UNIT, SHORT, T)
    if UNIT:
        out = ()
        R: tl.constexpr = 1 << RL
        for i in tl.static_range(R):
            out = out + (canonical(xs[i], T),)
        xs = out
    store_all(out_ptr, tl.cast(plane_out, tl.int64), base, m, mask, xs, RL, UNIT, OUT_ROWS, T)


@triton.jit(do_not_specialize=_SIZES)
def back_kernel(
    out_ptr,  # planes, plane_out words apart
    in_ptr,  # planes, plane_in words apart
    table_ptr,  # [N + 1, 16] int32; if SHORT, as `twiddles.short_roots` has it
    scale_ptr,  # [16] int32, an entry; used where SCALED
    plane_out,
    plane_in,
    first_lane,  # a multiple of 2^log_m
    n_lanes,
    log_m,
    log_order,  # log2 N, unless SHORT
    log_group,
    RL: tl.constexpr,
    INVERSE: tl.constexpr,
    COSET: tl.constexpr,
    UNIT: tl.constexpr,  # log_m is 0, which makes this the first pass
    SHORT: tl.constexpr,
    SCALED: tl.constexpr,
    LAST: tl.constexpr,
    IN_ROWS: tl.constexpr,
    OUT_ROWS: tl.constexpr,
    T: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Stages of the transform from bit-reversed order to natural; canonical if LAST."""
    m = tl.cast(log_m, tl.int64)
    order = tl.cast(log_order, tl.int64)
    R: tl.constexpr = 1 << RL
    col, base, mask = _place(first_lane, n_lanes, m, tl.cast(log_group, tl.int64), RL, BLOCK)
    xs = load_all(in_ptr, tl.cast(plane_in, tl.int64), base, m, mask, RL, UNIT, IN_ROWS, T)
    if SCALED:
        scale = entry(_address(scale_ptr, base), False, T)
        scaled = ()
        for i in tl.static_range(R):
            scaled = scaled + (times(xs[i], scale, T),)
        xs = scaled
    table = _address(table_ptr, base)
    xs = back(xs, table, col, m, order, RL, INVERSE, COSET, UNIT, SHORT, T)
    if LAST:
        out = ()
        for i in tl.static_range(R):
            out = out + (canonical(xs[i], T),)
        xs = out
    store_all(out_ptr, tl.cast(plane_out, tl.int64), base, m, mask, xs, RL, UNIT, OUT_ROWS, T)


@triton.jit(do_not_specialize=["plane_out", "plane_in", "n_lanes", "log_order"])
def turn_kernel(
    out_ptr,  # planes, plane_out words apart
    in_ptr,  # planes, plane_in words apart
    table_ptr,  # [N + 1, 16] int32
    plane_out,
    plane_in,
    n_lanes,
    log_order,
    RL: tl.constexpr,
    T: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Last pass of the inverse from natural order, first pass of the transform to the coset."""
    m = tl.cast(0, tl.int64)
    order = tl.cast(log_order, tl.int64)
    col, base, mask = _place(0, n_lanes, m, m, RL, BLOCK)
    xs = load_all(in_ptr, tl.cast(plane_in, tl.int64), base, m, mask, RL, True, False, T)
    table = _address(table_ptr, base)
    xs = forth(xs, table, col, m, order, RL, True, False, True, False, T)
    xs = back(xs, table, col, m, order, RL, False, True, True, False, T)
    store_all(out_ptr, tl.cast(plane_out, tl.int64), base, m, mask, xs, RL, True, False, T)


@triton.jit(
    do_not_specialize=[
        "plane_out",
        "plane_a",
        "plane_b",
        "n_lanes",
        "log_m",
        "log_order",
        "log_group",
    ]
)
def product_kernel(
    out_ptr,  # planes, plane_out words apart
    a_ptr,  # planes, plane_a words apart
    b_ptr,  # planes, plane_b words apart, transformed
    table_ptr,  # [N + 1, 16] int32
    plane_out,
    plane_a,
    plane_b,
    n_lanes,
    log_m,
    log_order,
    log_group,
    RL: tl.constexpr,
    UNIT: tl.constexpr,
    ROWS: tl.constexpr,  # of a and the result
    B_ROWS: tl.constexpr,
    T: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Last pass of a to the coset, times b, first pass of the product's inverse from the coset."""
    F: tl.constexpr = T.F
    m = tl.cast(log_m, tl.int64)
    order = tl.cast(log_order, tl.int64)
    R: tl.constexpr = 1 << RL
    col, base, mask = _place(0, n_lanes, m, tl.cast(log_group, tl.int64), RL, BLOCK)
    xs = load_all(a_ptr, tl.cast(plane_a, tl.int64), base, m, mask, RL, UNIT, ROWS, T)
    table = _address(table_ptr, base)
    xs = back(xs, table, col, m, order, RL, False, True, UNIT, False, T)
    products = ()
    for i in tl.static_range(R):
        offs = base + (tl.cast(i, tl.int64) << m)
        ys = load_all(b_ptr, tl.cast(plane_b, tl.int64), offs, m, mask, 0, False, B_ROWS, T)
        # the second factor may be anything below R
        products = products + (limbs.mul(near(xs[i], T), ys[0], F),)
    xs = forth(products, table, col, m, order, RL, True, True, UNIT, False, T)
    store_all(out_ptr, tl.cast(plane_out, tl.int64), base, m, mask, xs, RL, UNIT, ROWS, T)


@triton.jit(do_not_specialize=["plane_out", "plane_x", "plane_y", "n_lanes", "log_order"])
def combine_kernel(
    out_ptr,  # planes, plane_out words apart
    x_ptr,  # planes, plane_x words apart
    y_ptr,  # planes, plane_y words apart
    table_ptr,  # [N + 1, 16] int32
    scale_ptr,  # [32] int32: an entry for x, an entry for y
    plane_out,
    plane_x,
    plane_y,
    n_lanes,
    log_order,
    RL: tl.constexpr,
    FINISHED: tl.constexpr,
    T: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Last pass of x's inverse from the coset, unless FINISHED; then x s - y t, canonical."""
    m = tl.cast(0, tl.int64)
    order = tl.cast(log_order, tl.int64)
    R: tl.constexpr = 1 << RL
    col, base, mask = _place(0, n_lanes, m, m, RL, BLOCK)
    xs = load_all(x_ptr, tl.cast(plane_x, tl.int64), base, m, mask, RL, True, False, T)
    if not FINISHED:
        table = _address(table_ptr, base)
        xs = forth(xs, table, col, m, order, RL, True, True, True, False, T)
    for_x = _address(scale_ptr, base)
    ys = load_all(y_ptr, tl.cast(plane_y, tl.int64), base, m, mask, RL, True, False, T)
    out = ()
    for i in tl.static_range(R):
        x = near(times(xs[i], entry(for_x, False, T), T), T)
        y = near(times(ys[i], entry(for_x + 64, False, T), T), T)
        out = out + (canonical(minus(x, y, T), T),)
    store_all(out_ptr, tl.cast(plane_out, tl.int64), base, m, mask, out, RL, True, False, T)


@triton.jit(do_not_specialize=["n_words", "log_n"])
def reverse_kernel(
    out_ptr,  # [8, n_vectors, n] int32, contiguous, not the input
    in_ptr,  # [8, n_vectors, n] int32, contiguous
    n_words,  # 8 n_vectors n
    log_n,
    EDGE: tl.constexpr,  # log2 of the side of a square of words
    BLOCK: tl.constexpr,
):
    """The word at each index to the index with its log_n bits reversed.

    An index is high, middle, low, with EDGE bits in high and low; a square has all of both.
    """
    S: tl.constexpr = 1 << EDGE
    tl.static_assert(BLOCK == S * S)
    log = tl.cast(log_n, tl.int64)
    square = tl.program_id(0).to(tl.int64)
    n_middle = log - 2 * EDGE
    middle = square & ((tl.cast(1, tl.int64) << n_middle) - 1)
    vector = (square >> n_middle) << log
    side = tl.arange(0, S).to(tl.int64)
    # the rows are those whose reversals are 0, 1, ...: so both accesses run along memory
    rows = _reversed(side, EDGE) << (log - EDGE)
    x = tl.load(in_ptr + vector + (middle << EDGE) + rows[:, None] + side[None, :])
    back_at = vector + (_reversed(middle, n_middle) << EDGE)
    tl.store(out_ptr + back_at + rows[:, None] + side[None, :], tl.trans(x))


@triton.jit
def _reversed(x, n_bits):
    """The lowest `n_bits` bits of x, at most 32, in reverse."""
    y = x
    y = ((y >> 1) & 0x55555555) | ((y & 0x55555555) << 1)
    y = ((y >> 2) & 0x33333333) | ((y & 0x33333333) << 2)
    y = ((y >> 4) & 0x0F0F0F0F) | ((y & 0x0F0F0F0F) << 4)
    y = ((y >> 8) & 0x00FF00FF) | ((y & 0x00FF00FF) << 8)
    y = ((y >> 16) & 0x0000FFFF) | ((y & 0x0000FFFF) << 16)
    return y >> (32 - n_bits)
