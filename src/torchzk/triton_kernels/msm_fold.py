"""sum_k 2^k S_k of a few hundred points, on the host, without an inversion for each addition."""

from __future__ import annotations

from collections.abc import Mapping

from torchzk.params import integers
from torchzk.params.curves import Coordinate, Curve, Point

# X / Z^2, Y / Z^3; None is infinity
_Jacobian = tuple[Coordinate, Coordinate, Coordinate] | None


def fold(sums: Mapping[int, Point], curve: Curve) -> Point:
    """sum_k 2^k sums[k] by Horner's rule, in Jacobian coordinates."""
    total: _Jacobian = None
    for k in reversed(range(max(sums, default=-1) + 1)):
        total = _add(_double(total, curve), sums.get(k), curve)
    if total is None:
        return None
    p, (x, y, z) = curve.field.modulus, total
    inverse = integers.coordinate_inverse(z, p)
    square = integers.coordinate_mul(inverse, inverse, p)
    cube = integers.coordinate_mul(square, inverse, p)
    return integers.coordinate_mul(x, square, p), integers.coordinate_mul(y, cube, p)


def _double(a: _Jacobian, curve: Curve) -> _Jacobian:
    """2 a; a curve of odd order has no point that is its own opposite, but y = 0 is respected."""
    if a is None or not any(a[1]):
        return None
    p, mul = curve.field.modulus, integers.coordinate_mul
    x, y, z = a
    yy, xx = mul(y, y, p), mul(x, x, p)
    s = _combine(p, (4, mul(x, yy, p)))
    m = _combine(p, (3, xx))
    x3 = _combine(p, (1, mul(m, m, p)), (-2, s))
    y3 = _combine(p, (1, mul(m, _combine(p, (1, s), (-1, x3)), p)), (-8, mul(yy, yy, p)))
    return x3, y3, _combine(p, (2, mul(y, z, p)))


def _add(a: _Jacobian, b: Point, curve: Curve) -> _Jacobian:
    """a + b for an affine b."""
    if b is None:
        return a
    if a is None:
        return b[0], b[1], (1, *[0] * (curve.degree - 1))
    p, mul = curve.field.modulus, integers.coordinate_mul
    x, y, z = a
    zz = mul(z, z, p)
    h = _combine(p, (1, mul(b[0], zz, p)), (-1, x))
    r = _combine(p, (1, mul(b[1], mul(zz, z, p), p)), (-1, y))
    if not any(h):
        return _double(a, curve) if not any(r) else None
    hh = mul(h, h, p)
    hhh, v = mul(h, hh, p), mul(x, hh, p)
    x3 = _combine(p, (1, mul(r, r, p)), (-1, hhh), (-2, v))
    y3 = _combine(p, (1, mul(r, _combine(p, (1, v), (-1, x3)), p)), (-1, mul(y, hhh, p)))
    return x3, y3, mul(z, h, p)


def _combine(p: int, *terms: tuple[int, Coordinate]) -> Coordinate:
    """A sum of small multiples."""
    return tuple(sum(k * t[i] for k, t in terms) % p for i in range(len(terms[0][1])))
