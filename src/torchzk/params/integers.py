"""Curve arithmetic on Python integers: the judge of every tensor operation.

Also folds the few hundred points that are left at the end of an MSM. Slow, short and complete.
"""

from __future__ import annotations

from torchzk.params.curves import Coordinate, Curve, Point


def coordinate_mul(a: Coordinate, b: Coordinate, p: int) -> Coordinate:
    """Product in Fp or in Fp2 = Fp[u] / (u^2 + 1)."""
    if len(a) == 1:
        return (a[0] * b[0] % p,)
    return ((a[0] * b[0] - a[1] * b[1]) % p, (a[0] * b[1] + a[1] * b[0]) % p)


def coordinate_inverse(a: Coordinate, p: int) -> Coordinate:
    """Inverse in Fp or Fp2; raises ValueError for zero."""
    if len(a) == 1:
        return (pow(a[0], -1, p),)
    norm = pow(a[0] * a[0] + a[1] * a[1], -1, p)
    return (a[0] * norm % p, -a[1] * norm % p)


def _sub(a: Coordinate, b: Coordinate, p: int) -> Coordinate:
    return tuple((x - y) % p for x, y in zip(a, b, strict=True))


def _scale(a: Coordinate, k: int, p: int) -> Coordinate:
    return tuple(x * k % p for x in a)


def is_on_curve(curve: Curve, point: Point) -> bool:
    """Whether the point satisfies the curve's equation; true at infinity."""
    if point is None:
        return True
    p = curve.field.modulus
    x, y = point
    cube = coordinate_mul(coordinate_mul(x, x, p), x, p)
    rhs = tuple((c + b) % p for c, b in zip(cube, curve.b, strict=True))
    return coordinate_mul(y, y, p) == rhs


def neg(curve: Curve, point: Point) -> Point:
    """The opposite point."""
    if point is None:
        return None
    return (point[0], _scale(point[1], -1, curve.field.modulus))


def add(curve: Curve, left: Point, right: Point) -> Point:
    """Sum of two points, whatever they are."""
    if left is None:
        return right
    if right is None:
        return left
    p = curve.field.modulus
    (x1, y1), (x2, y2) = left, right
    if x1 == x2:
        if y1 != y2 or not any(y1):
            return None
        top, bottom = _scale(coordinate_mul(x1, x1, p), 3, p), _scale(y1, 2, p)
    else:
        top, bottom = _sub(y2, y1, p), _sub(x2, x1, p)
    slope = coordinate_mul(top, coordinate_inverse(bottom, p), p)
    x3 = _sub(_sub(coordinate_mul(slope, slope, p), x1, p), x2, p)
    y3 = _sub(coordinate_mul(slope, _sub(x1, x3, p), p), y1, p)
    return (x3, y3)


def mul(curve: Curve, scalar: int, point: Point) -> Point:
    """`scalar` times the point, by doubling and adding; `scalar` is not reduced."""
    if scalar < 0:
        return mul(curve, -scalar, neg(curve, point))
    total: Point = None
    for bit in bin(scalar)[2:]:
        total = add(curve, total, total)
        if bit == "1":
            total = add(curve, total, point)
    return total


def in_subgroup(curve: Curve, point: Point) -> bool:
    """Whether the point is on the curve and of order dividing r."""
    return is_on_curve(curve, point) and mul(curve, curve.scalars.modulus, point) is None
