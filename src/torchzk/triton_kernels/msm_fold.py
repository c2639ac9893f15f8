"""sum_k 2^k S_k of the sums of an MSM's windows, on the host.

Points are few, doublings some 255. Jacobian coordinates (X / Z^2, Y / Z^3), so there is one
inversion, at the end. In G1 the numbers are plain integers.

Source: the formulas dbl-2009-l and madd-2004-hmv of the Explicit-Formulas Database.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from torchzk.params import integers
from torchzk.params.curves import Curve, Point

# an int in Fp, a pair of them in Fp2
_Number = Any
_Jacobian = tuple[_Number, _Number, _Number] | None


@dataclass(frozen=True)
class _Field:
    """Arithmetic of one coordinate."""

    mul: Callable[[_Number, _Number], _Number]
    sqr: Callable[[_Number], _Number]
    sub: Callable[[_Number, _Number], _Number]
    times: Callable[[int, _Number], _Number]
    one: _Number
    zero: _Number


def _prime(p: int) -> _Field:
    return _Field(
        mul=lambda a, b: a * b % p,
        sqr=lambda a: a * a % p,
        sub=lambda a, b: (a - b) % p,
        times=lambda k, a: k * a % p,
        one=1,
        zero=0,
    )


def _quadratic(p: int) -> _Field:
    def mul(a: _Number, b: _Number) -> _Number:
        low, high = a[0] * b[0], a[1] * b[1]
        return (low - high) % p, ((a[0] + a[1]) * (b[0] + b[1]) - low - high) % p

    return _Field(
        mul=mul,
        sqr=lambda a: ((a[0] + a[1]) * (a[0] - a[1]) % p, 2 * a[0] * a[1] % p),
        sub=lambda a, b: ((a[0] - b[0]) % p, (a[1] - b[1]) % p),
        times=lambda k, a: (k * a[0] % p, k * a[1] % p),
        one=(1, 0),
        zero=(0, 0),
    )


def fold(sums: Mapping[int, Point], curve: Curve) -> Point:
    """sum_k 2^k sums[k] by Horner's rule."""
    p, plain = curve.field.modulus, curve.degree == 1
    field = _prime(p) if plain else _quadratic(p)
    total: _Jacobian = None
    for k in reversed(range(max(sums, default=-1) + 1)):
        total = _double_plain(total, p) if plain else _double(total, field)
        point = sums.get(k)
        if point is not None:
            x, y = point
            total = _add(total, x[0], y[0], field) if plain else _add(total, x, y, field)
    if total is None:
        return None
    x, y, z = ((c,) for c in total) if plain else total
    inverse = integers.coordinate_inverse(z, p)
    square = integers.coordinate_mul(inverse, inverse, p)
    cube = integers.coordinate_mul(square, inverse, p)
    return integers.coordinate_mul(x, square, p), integers.coordinate_mul(y, cube, p)


def _double(a: _Jacobian, f: _Field) -> _Jacobian:
    if a is None or a[1] == f.zero:
        return None
    x, y, z = a
    yy, m = f.sqr(y), f.times(3, f.sqr(x))
    s = f.times(4, f.mul(x, yy))
    x3 = f.sub(f.sqr(m), f.times(2, s))
    y3 = f.sub(f.mul(m, f.sub(s, x3)), f.times(8, f.sqr(yy)))
    return x3, y3, f.times(2, f.mul(y, z))


def _double_plain(a: _Jacobian, p: int) -> _Jacobian:
    """`_double` in a prime field; of 255 in a row, the calls alone would take a millisecond."""
    if a is None or a[1] == 0:
        return None
    x, y, z = a
    yy, m = y * y % p, 3 * x * x
    s = 4 * x * yy
    x3 = (m * m - 2 * s) % p
    return x3, (m * (s - x3) - 8 * yy * yy) % p, 2 * y * z % p


def _add(a: _Jacobian, x2: _Number, y2: _Number, f: _Field) -> _Jacobian:
    """a plus an affine point."""
    if a is None:
        return x2, y2, f.one
    x, y, z = a
    zz = f.sqr(z)
    h, r = f.sub(f.mul(x2, zz), x), f.sub(f.mul(y2, f.mul(zz, z)), y)
    if h == f.zero:
        return _double(a, f) if r == f.zero else None
    hh = f.sqr(h)
    hhh, v = f.mul(h, hh), f.mul(x, hh)
    x3 = f.sub(f.sub(f.sqr(r), hhh), f.times(2, v))
    return x3, f.sub(f.mul(r, f.sub(v, x3)), f.mul(y, hhh)), f.mul(z, h)
