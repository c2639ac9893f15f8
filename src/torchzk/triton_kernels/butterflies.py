"""Device functions of the transforms: butterflies in registers, and their constants from memory.

A lane holds `2^RL` elements whose indices differ by multiples of M = 2^log_m, as a tuple of tuples
of words. `forth` undoes stages from the largest distance down, `back` goes up from the smallest:

    forth   (u, v) -> (u + v, (u - v) w)    near in, near out; out[0] is canonical
    back    (u, v) -> (u + v w, u - v w)    below 2p in, below 2p out

*Near* is below p + 2^-25 p. A sum of near values that is not brought down may exceed p by twice as
much as they did. Through the sums of one pass that is at most eightfold; out[0], which alone is a
sum of sums, is made canonical at the end, so nothing builds up over the passes. In the plain
variant everything is canonical.

The constant of a stage of distance H is a power of g, a primitive 2N-th root of unity: at k in
[0, H), g^((2k + C) N / (2H)), where C is 1 on the coset g and 0 on the domain. A table has g^e
for e = 0..N, each with its quotient (`ptx_shoup`); g^-e is -g^(N - e). Of short distances there is
a SHORT table for each N: a warp's constants lie side by side there, in the order of its loads.
"""

# in kernels a tuple grows
# mypy: disable-error-code="assignment, var-annotated"
from __future__ import annotations

import triton
import triton.language as tl

from torchzk.triton_kernels import limbs


@triton.jit
def entry(address, SHORT: tl.constexpr, T: tl.constexpr):
    """The constant and its quotient at a byte address, as one tuple of 16 words."""
    if T.variant == "ptx":
        text: tl.constexpr = T.short_entry if SHORT else T.entry
        return tl.inline_asm_elementwise(
            text, T.entry_constraints, (address,), T.pair, is_pure=False, pack=1
        )
    else:
        apart: tl.constexpr = T.short_quad if SHORT else T.quad_bytes
        x = ()
        for i in tl.static_range(8):
            at = address + i // 4 * apart + i % 4 * 4
            word = tl.load(at.to(tl.pointer_type(tl.int32)))
            x = x + (word.to(tl.uint32, bitcast=True),)
        return x


@triton.jit
def times(v, constant, T: tl.constexpr):
    """v times a constant: below 2p for v below 2p."""
    F: tl.constexpr = T.F
    if T.variant == "ptx":
        return tl.inline_asm_elementwise(
            T.mul, T.ternary, v + constant, T.element, is_pure=True, pack=1
        )
    else:
        return limbs.mul(constant, v, F)


@triton.jit
def near(a, T: tl.constexpr):
    """From below 2p to near."""
    if T.variant == "ptx":
        return tl.inline_asm_elementwise(T.near, T.unary, a, T.element, is_pure=True, pack=1)
    else:
        return a


@triton.jit
def canonical(a, T: tl.constexpr):
    """From below 2p, or a little more, to [0, p)."""
    if T.variant == "ptx":
        return tl.inline_asm_elementwise(T.canonical, T.unary, a, T.element, is_pure=True, pack=1)
    else:
        return a


@triton.jit
def minus(a, b, T: tl.constexpr):
    """a - b below 2p, for near a and b."""
    F: tl.constexpr = T.F
    if T.variant == "ptx":
        return tl.inline_asm_elementwise(T.minus, T.binary, a + b, T.element, is_pure=True, pack=1)
    else:
        return limbs.sub(a, b, F)


@triton.jit
def _half(r, SECOND: tl.constexpr):
    x = ()
    for i in tl.static_range(8):
        x = x + (r[i + 8 * SECOND],)
    return x


@triton.jit
def _forth_one(u, v, address, TRIVIAL: tl.constexpr, SHORT: tl.constexpr, T: tl.constexpr):
    F: tl.constexpr = T.F
    if T.variant == "plain":
        d = limbs.sub(u, v, F)
        if not TRIVIAL:
            d = times(d, entry(address, SHORT, T), T)
        return limbs.add(u, v, F), d
    elif TRIVIAL:
        r = tl.inline_asm_elementwise(
            T.forth_trivial, T.pair_constraints, u + v, T.pair, is_pure=True, pack=1
        )
        return _half(r, 0), _half(r, 1)
    else:
        r = tl.inline_asm_elementwise(
            T.forth,
            T.butterfly_constraints,
            u + v + entry(address, SHORT, T),
            T.pair,
            is_pure=True,
            pack=1,
        )
        return _half(r, 0), _half(r, 1)


@triton.jit
def _back_one(u, v, address, TRIVIAL: tl.constexpr, SHORT: tl.constexpr, T: tl.constexpr):
    F: tl.constexpr = T.F
    if T.variant == "plain":
        if not TRIVIAL:
            v = times(v, entry(address, SHORT, T), T)
        return limbs.add(u, v, F), limbs.sub(u, v, F)
    elif TRIVIAL:
        r = tl.inline_asm_elementwise(
            T.back_trivial, T.pair_constraints, u + v, T.pair, is_pure=True, pack=1
        )
        return _half(r, 0), _half(r, 1)
    else:
        r = tl.inline_asm_elementwise(
            T.back,
            T.butterfly_constraints,
            u + v + entry(address, SHORT, T),
            T.pair,
            is_pure=True,
            pack=1,
        )
        return _half(r, 0), _half(r, 1)


@triton.jit
def _stage(
    xs,
    table,  # byte address of the table, uint64
    col,  # int64, the column in [0, M)
    log_m,
    log_order,  # log2 N
    S: tl.constexpr,  # the distance is M * 2^S
    RL: tl.constexpr,
    FORTH: tl.constexpr,
    INVERSE: tl.constexpr,
    COSET: tl.constexpr,
    UNIT: tl.constexpr,  # M is 1
    SHORT: tl.constexpr,
    T: tl.constexpr,
):
    """One stage on all pairs at distance M 2^S."""
    R: tl.constexpr = 1 << RL
    D: tl.constexpr = 1 << S
    if SHORT:
        log_order = log_m + S + COSET
    # one bit more, as the exponent is (2k + C) / 2 times this
    up = log_order - log_m - S
    first = ((2 * col + COSET) << up) >> 1
    step = tl.cast(1, tl.int64) << (up + log_m)
    if INVERSE:
        first = (tl.cast(1, tl.int64) << log_order) - first
        step = -step
    if SHORT:
        # tables up to N / 2, each with 8 entries more, lie before
        first = (first + (tl.cast(1, tl.int64) << log_order) + 8 * log_order).to(tl.int32)
        step = step.to(tl.int32)
    firsts = ()
    seconds = ()
    for j in tl.static_range(R // 2):
        e = first + (j % D) * step
        at = ((e >> 3) << 9) + ((e & 7) << 4) if SHORT else e * 64
        address = table + at.to(tl.uint64)
        a, b = _pair(xs, address, j, D, FORTH, INVERSE, UNIT and not COSET, SHORT, T)
        firsts = firsts + (a,)
        seconds = seconds + (b,)
    out = ()
    for i in tl.static_range(R):
        if i & D == 0:
            out = out + (firsts[i // (2 * D) * D + i % D],)
        else:
            out = out + (seconds[i // (2 * D) * D + i % D],)
    return out


@triton.jit
def _pair(
    xs,
    address,
    J: tl.constexpr,
    D: tl.constexpr,
    FORTH: tl.constexpr,
    INVERSE: tl.constexpr,
    UNIT: tl.constexpr,  # the constant of the first pair is 1
    SHORT: tl.constexpr,
    T: tl.constexpr,
):
    """The J-th butterfly of a stage of register distance D."""
    low: tl.constexpr = J // D * (2 * D) + J % D
    trivial: tl.constexpr = UNIT and J % D == 0
    # the table's entry is minus the inverse constant, except where that is 1
    negative: tl.constexpr = INVERSE and not trivial
    u = xs[low]
    v = xs[low + D]
    if FORTH:
        if negative:
            return _forth_one(v, u, address, trivial, SHORT, T)
        else:
            return _forth_one(u, v, address, trivial, SHORT, T)
    else:
        a, b = _back_one(u, v, address, trivial, SHORT, T)
        if negative:
            return b, a
        else:
            return a, b


@triton.jit
def forth(
    xs,
    table,
    col,
    log_m,
    log_order,
    RL: tl.constexpr,
    INVERSE: tl.constexpr,
    COSET: tl.constexpr,
    UNIT: tl.constexpr,
    SHORT: tl.constexpr,
    T: tl.constexpr,
):
    """The RL stages from the largest distance down."""
    for s in tl.static_range(RL):
        xs = _stage(
            xs, table, col, log_m, log_order, RL - 1 - s, RL, True, INVERSE, COSET, UNIT, SHORT, T
        )
    out = (canonical(xs[0], T),)
    R: tl.constexpr = 1 << RL
    for i in tl.static_range(1, R):
        out = out + (xs[i],)
    return out


@triton.jit
def back(
    xs,
    table,
    col,
    log_m,
    log_order,
    RL: tl.constexpr,
    INVERSE: tl.constexpr,
    COSET: tl.constexpr,
    UNIT: tl.constexpr,
    SHORT: tl.constexpr,
    T: tl.constexpr,
):
    """The RL stages from the smallest distance up."""
    for s in tl.static_range(RL):
        xs = _stage(xs, table, col, log_m, log_order, s, RL, False, INVERSE, COSET, UNIT, SHORT, T)
    return xs


@triton.jit
def load_all(
    ptr,
    plane,
    base,
    log_m,
    mask,
    RL: tl.constexpr,
    UNIT: tl.constexpr,
    ROWS: tl.constexpr,
    T: tl.constexpr,
):
    """The 2^RL elements of a lane, from planes, or from rows of eight words."""
    F: tl.constexpr = T.F
    R: tl.constexpr = 1 << RL
    if T.variant == "ptx" and UNIT and RL == 3 and not ROWS:
        return _load_eight(ptr, plane, base, T)
    else:
        xs = ()
        for i in tl.static_range(R):
            offs = base + (tl.cast(i, tl.int64) << log_m)
            if not ROWS:
                xs = xs + (limbs.load(ptr, plane, offs, mask, F),)
            elif T.variant == "ptx":
                at = (ptr + 8 * offs).to(tl.uint64)
                x = tl.inline_asm_elementwise(
                    T.load8, T.load8_constraints, (at,), T.element, is_pure=False, pack=1
                )
                xs = xs + (x,)
            else:
                xs = xs + (limbs.load_row(ptr, 8 * offs, mask, F),)
        return xs


@triton.jit
def store_all(
    ptr,
    plane,
    base,
    log_m,
    mask,
    xs,
    RL: tl.constexpr,
    UNIT: tl.constexpr,
    ROWS: tl.constexpr,
    T: tl.constexpr,
):
    """The reverse of `load_all`."""
    F: tl.constexpr = T.F
    R: tl.constexpr = 1 << RL
    if T.variant == "ptx" and UNIT and RL == 3 and not ROWS:
        _store_eight(ptr, plane, base, mask, xs, T)
    else:
        for i in tl.static_range(R):
            offs = base + (tl.cast(i, tl.int64) << log_m)
            if not ROWS:
                limbs.store(ptr, plane, offs, mask, xs[i], F)
            elif T.variant == "ptx":
                at = (ptr + 8 * offs).to(tl.uint64)
                tl.inline_asm_elementwise(
                    T.store8,
                    T.store8_constraints,
                    (at,) + xs[i] + (mask.to(tl.int32),),
                    tl.uint32,
                    is_pure=False,
                    pack=1,
                )
            else:
                limbs.store_row(ptr, 8 * offs, mask, xs[i], F)


@triton.jit
def _load_eight(ptr, plane, base, T: tl.constexpr):
    """Eight neighbours, in 16-byte loads. Lanes past the end must have been sent to a valid one."""
    words = ()
    for k in tl.static_range(8):
        at = (ptr + k * plane + base).to(tl.uint64)
        words = words + tl.inline_asm_elementwise(
            T.load4, T.load4_constraints, (at,), T.quad, is_pure=False, pack=1
        )
        words = words + tl.inline_asm_elementwise(
            T.load4, T.load4_constraints, (at + 16,), T.quad, is_pure=False, pack=1
        )
    xs = ()
    for i in tl.static_range(8):
        x = ()
        for k in tl.static_range(8):
            x = x + (words[8 * k + i],)
        xs = xs + (x,)
    return xs


@triton.jit
def _store_eight(ptr, plane, base, mask, xs, T: tl.constexpr):
    """Eight neighbours, in 16-byte stores."""
    there = mask.to(tl.int32)
    for k in tl.static_range(8):
        at = (ptr + k * plane + base).to(tl.uint64)
        for h in tl.static_range(2):
            tl.inline_asm_elementwise(
                T.store4,
                T.store4_constraints,
                (at + 16 * h, xs[4 * h][k], xs[4 * h + 1][k], xs[4 * h + 2][k], xs[4 * h + 3][k])
                + (there,),
                tl.uint32,
                is_pure=False,
                pack=1,
            )
