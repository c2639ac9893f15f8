"""Device functions over affine points in rows: loads, stores, and the addition law in pieces.

A coordinate is an element of `limbs`, in Fp for G1 and in Fp2 for G2, as `F` says. A point is
its x and its y as they lie in a row, 4 F.W bytes each. Infinity is (0, 0).
"""

from __future__ import annotations

import triton
import triton.language as tl

from torchzk.triton_kernels import divsteps, limbs


def _load_text(n: int) -> str:
    """Read `n` words at the address given, 16 bytes at a time."""
    return "\n".join(
        f"ld.global.nc.v4.u32 {{${j}, ${j + 1}, ${j + 2}, ${j + 3}}}, [${n}+{4 * j}];"
        for j in range(0, n, 4)
    )


def _store_text(n: int) -> str:
    """Write `n` words at the address given; a block must have a result, here a zero."""
    lines = [
        f"st.global.v4.u32 [$1+{4 * j}], {{${j + 2}, ${j + 3}, ${j + 4}, ${j + 5}}};"
        for j in range(0, n, 4)
    ]
    return "\n".join([*lines, "mov.u32 $0, 0;"])


_LOAD = tl.constexpr({n: _load_text(n) for n in (12, 24)})
_LOAD_OPERANDS = tl.constexpr({n: ",".join(["=r"] * n + ["l"]) for n in (12, 24)})
_STORE = tl.constexpr({n: _store_text(n) for n in (12, 24)})
_STORE_OPERANDS = tl.constexpr({n: ",".join(["=r", "l"] + ["r"] * n) for n in (12, 24)})


@triton.jit
def address(base, offset):
    """The address `offset` bytes after the pointer `base`."""
    return base.to(tl.uint64) + offset.to(tl.uint64)


@triton.jit
def load(at, F: tl.constexpr):
    """The coordinate at an address, a multiple of 16. What is read is not written meanwhile."""
    if F.variant == "ptx":
        return tl.inline_asm_elementwise(
            _LOAD[F.W], _LOAD_OPERANDS[F.W], (at,), F.types, is_pure=True, pack=1
        )
    else:
        return limbs.load_row(at.to(tl.pointer_type(tl.int32)), 0, at != 0, F)


@triton.jit
def store(at, a, F: tl.constexpr):
    """Write a coordinate to an address, a multiple of 16; every lane does."""
    if F.variant == "ptx":
        tl.inline_asm_elementwise(
            _STORE[F.W], _STORE_OPERANDS[F.W], (at,) + a, tl.uint32, is_pure=False, pack=1
        )
    else:
        limbs.store_row(at.to(tl.pointer_type(tl.int32)), 0, at != 0, a, F)


@triton.jit
def is_equal(a, b, F: tl.constexpr):
    """Whether a is b."""
    W: tl.constexpr = F.W
    bits = a[0] ^ b[0]
    for j in tl.static_range(1, W):
        bits = bits | (a[j] ^ b[j])
    return bits == 0


@triton.jit
def zero(like, F: tl.constexpr):
    """0, shaped as the block `like`."""
    x = ()
    W: tl.constexpr = F.W
    for _ in tl.static_range(W):
        x = x + (tl.zeros(like.shape, tl.uint32),)  # type: ignore[assignment]
    return x


@triton.jit
def one(like, F: tl.constexpr):
    """1 in Montgomery form, shaped as the block `like`."""
    x = ()
    W: tl.constexpr = F.W
    for j in tl.static_range(W):
        x = x + (tl.full(like.shape, F.one[j], tl.uint32),)  # type: ignore[assignment]
    return x


@triton.jit
def inverse(x, F: tl.constexpr):
    """The inverse of a coordinate, 0 for 0, by division steps; in Fp2 by way of the norm."""
    if F.degree == 1:
        return divsteps.inverse(x)
    else:
        P: tl.constexpr = F.prime
        c0 = limbs.c0(x, F)
        c1 = limbs.c1(x, F)
        norm = divsteps.inverse(limbs.add(limbs.sqr(c0, P), limbs.sqr(c1, P), P))
        return limbs.mul(c0, norm, P) + limbs.neg(limbs.mul(c1, norm, P), P)


@triton.jit
def is_infinite(x, y, F: tl.constexpr):
    return limbs.is_zero(x, F) & limbs.is_zero(y, F)


@triton.jit
def may_be_special(xa, xb):
    """Whether a pair may not be ordinary: equal x, or an x of 0, as infinity has.

    One word decides, so an ordinary pair may be taken for a special one: once in 2^30.
    """
    return (xa[0] == xb[0]) | (xa[0] == 0) | (xb[0] == 0)


@triton.jit
def line(xa, ya, xb, yb, F: tl.constexpr):
    """Rise and run of the line through any two points; the run is never 0.

    The chord, or the tangent of equal points. What it is of a pair that has no line does not
    matter, see `settle`.
    """
    double = is_equal(xa, xb, F) & is_equal(ya, yb, F) & ~limbs.is_zero(ya, F)
    square = limbs.sqr(xa, F)
    tangent = limbs.add(limbs.dbl(square, F), square, F)
    rise = limbs.select(double, tangent, limbs.sub(yb, ya, F), F)
    run = limbs.select(double, limbs.dbl(ya, F), limbs.sub(xb, xa, F), F)
    none = limbs.is_zero(run, F)
    return rise, limbs.select(none, one(none, F), run, F)


@triton.jit
def settle(x, y, xa, ya, xb, yb, F: tl.constexpr):
    """(x, y), or what the sum is if a point is infinite or the two are opposite."""
    a_infinite = is_infinite(xa, ya, F)
    b_infinite = is_infinite(xb, yb, F)
    same = is_equal(ya, yb, F) & ~limbs.is_zero(ya, F)
    opposite = is_equal(xa, xb, F) & ~same
    x = limbs.select(opposite, zero(opposite, F), x, F)
    y = limbs.select(opposite, zero(opposite, F), y, F)
    x = limbs.select(b_infinite, xa, x, F)
    y = limbs.select(b_infinite, ya, y, F)
    x = limbs.select(a_infinite, xb, x, F)
    y = limbs.select(a_infinite, yb, y, F)
    return x, y
