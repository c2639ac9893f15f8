"""Device functions on points in XYZZ coordinates: x = X / ZZ, y = Y / ZZZ, with ZZ^3 = ZZZ^2.

They need no inversion, so they serve where few points are left and an inversion would be waited
for. A point is a tuple of four coordinates in rows of 16 F.W bytes; ZZ = 0 is infinity. Complete:
equal points, opposite ones and infinity are exact.

Source: the formulas add-2008-s, madd-2008-s and dbl-2008-s-1 of the Explicit-Formulas Database,
for curves with a = 0.
"""

# mypy: disable-error-code="assignment, misc"
from __future__ import annotations

import triton
import triton.language as tl

from torchzk.triton_kernels import limbs, points


@triton.jit
def infinity(like, F: tl.constexpr):
    """Infinity, shaped as the block `like`."""
    zero = points.zero(like, F)
    return zero, zero, zero, zero


@triton.jit
def load(at, F: tl.constexpr):
    """The point at an address, a multiple of 16."""
    return (
        points.load(at, F),
        points.load(at + 4 * F.W, F),
        points.load(at + 8 * F.W, F),
        points.load(at + 12 * F.W, F),
    )


@triton.jit
def store(at, p, F: tl.constexpr):
    """Write a point to an address, a multiple of 16."""
    points.store(at, p[0], F)
    points.store(at + 4 * F.W, p[1], F)
    points.store(at + 8 * F.W, p[2], F)
    points.store(at + 12 * F.W, p[3], F)


@triton.jit
def select(condition, p, q, F: tl.constexpr):
    """p where the condition holds, else q."""
    return (
        limbs.select(condition, p[0], q[0], F),
        limbs.select(condition, p[1], q[1], F),
        limbs.select(condition, p[2], q[2], F),
        limbs.select(condition, p[3], q[3], F),
    )


@triton.jit
def _sum(p, x, y, zz, zzz, run, rise, equal, F: tl.constexpr):
    """The sum by the chord, or where `equal` by the tangent.

    The chord goes through (x, y) / (zz, zzz) and has `run` and `rise`; the tangent is the same with
    run 2 Y and rise 3 X^2 of p, but for one term.
    """
    if tl.max(equal.to(tl.int32), 0) > 0:
        square = limbs.sqr(p[0], F)
        rise = limbs.select(equal, limbs.add(limbs.dbl(square, F), square, F), rise, F)
        run = limbs.select(equal, limbs.dbl(p[1], F), run, F)
        x = limbs.select(equal, p[0], x, F)
        y = limbs.select(equal, p[1], y, F)
        zz = limbs.select(equal, p[2], zz, F)
        zzz = limbs.select(equal, p[3], zzz, F)
    square = limbs.sqr(run, F)
    zz = limbs.mul(zz, square, F)
    q = limbs.mul(x, square, F)
    cube = limbs.mul(run, square, F)
    zzz = limbs.mul(zzz, cube, F)
    y = limbs.mul(y, cube, F)
    cube = limbs.select(equal, points.zero(equal, F), cube, F)
    x = limbs.sub(limbs.sub(limbs.sqr(rise, F), cube, F), limbs.dbl(q, F), F)
    y = limbs.sub(limbs.mul(rise, limbs.sub(q, x, F), F), y, F)
    return x, y, zz, zzz


@triton.jit
def add_affine(p, x, y, F: tl.constexpr):
    """p plus an affine point."""
    run = limbs.sub(limbs.mul(x, p[2], F), p[0], F)
    rise = limbs.sub(limbs.mul(y, p[3], F), p[1], F)
    p_infinite = limbs.is_zero(p[2], F)
    infinite = points.is_infinite(x, y, F)
    # of opposite points the chord's ZZ is 0, as it should be
    equal = limbs.is_zero(run, F) & limbs.is_zero(rise, F) & ~p_infinite & ~infinite
    total = _sum(p, p[0], p[1], p[2], p[3], run, rise, equal, F)
    unit = points.one(x[0], F)
    total = select(p_infinite, (x, y, unit, unit), total, F)
    return select(infinite, p, total, F)


@triton.jit
def add(p, q, F: tl.constexpr):
    """p + q."""
    x = limbs.mul(p[0], q[2], F)
    y = limbs.mul(p[1], q[3], F)
    run = limbs.sub(limbs.mul(q[0], p[2], F), x, F)
    rise = limbs.sub(limbs.mul(q[1], p[3], F), y, F)
    zz = limbs.mul(p[2], q[2], F)
    zzz = limbs.mul(p[3], q[3], F)
    p_infinite = limbs.is_zero(p[2], F)
    q_infinite = limbs.is_zero(q[2], F)
    equal = limbs.is_zero(run, F) & limbs.is_zero(rise, F) & ~p_infinite & ~q_infinite
    total = _sum(p, x, y, zz, zzz, run, rise, equal, F)
    total = select(p_infinite, q, total, F)
    return select(q_infinite, p, total, F)


@triton.jit
def to_affine(p, inverse, F: tl.constexpr):
    """x and y of a point, given 1 / ZZZ; infinity if that is 0."""
    z = limbs.mul(p[2], inverse, F)
    return limbs.mul(p[0], limbs.sqr(z, F), F), limbs.mul(p[1], inverse, F)
