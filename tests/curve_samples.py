"""Points for tests of the curve operations, and the same in an independent library."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from py_arkworks_bls12381 import G1Point, G2Point, Scalar

from torchzk.params import integers
from torchzk.params.curves import G1, Curve, Point
from torchzk.params.fields import FR

R = FR.modulus
EDGE_SCALARS = [0, 1, 2, R - 1, R - 2, R // 2, 1 << 254, (1 << 254) - 1]

OUTSIDE_G1: Point = ((0,), (2,))
"""On the curve y^2 = x^3 + 4, of order 3, so not in G1; its x is 0."""


def scalars(n: int, seed: int) -> list[int]:
    """Edge cases first, random after."""
    rng = random.Random(seed)
    return (EDGE_SCALARS + [rng.randrange(R) for _ in range(n)])[:n]


def multiples(curve: Curve, n: int, seed: int) -> list[tuple[int, Point]]:
    """k and k times the generator: zero, repeated and opposite ones among them."""
    rng = random.Random(seed)
    logs = [rng.randrange(R) for _ in range(5)] + [0, 1, 2]
    logs += [R - k for k in logs[:3]]
    known = [(k % R, integers.mul(curve, k, curve.generator)) for k in logs]
    return [rng.choice(known) for _ in range(n)]


def some_points(curve: Curve, n: int, seed: int, different: int = 8) -> list[Point]:
    """Of few, so that infinite, equal and opposite ones meet; in G1 of order 3 with x = 0, too."""
    known = [p for _, p in multiples(curve, different, seed)] + [None, curve.generator]
    known.append(integers.neg(curve, curve.generator))
    if curve is G1:
        known += [OUTSIDE_G1, integers.neg(G1, OUTSIDE_G1)]
    return random.Random(seed).choices(known, k=n)


def weighted(curve: Curve, factors: Sequence[int], points: Sequence[Point]) -> Point:
    """The sum of factors[i] points[i], on integers."""
    total: Point = None
    for f, p in zip(factors, points, strict=True):
        total = integers.add(curve, total, integers.mul(curve, f, p))
    return total


def library_multiple(curve: Curve, scalar: int) -> Point:
    """scalar times the generator, by the library."""
    group = G1Point if curve is G1 else G2Point
    return _from_library(group() * _library_scalar(scalar), curve)


def library_msm(curve: Curve, factors: list[int], logs: list[int]) -> Point:
    """sum factors[i] logs[i] generator, by the library's own multi-scalar multiplication."""
    group: Any = G1Point if curve is G1 else G2Point
    points = [group() * _library_scalar(k) for k in logs]
    return _from_library(
        group.multiexp_unchecked(points, [_library_scalar(f) for f in factors]), curve
    )


def _library_scalar(value: int) -> Scalar:
    return Scalar.from_le_bytes(value.to_bytes(32, "little"))


def _from_library(point: G1Point | G2Point, curve: Curve) -> Point:
    raw = bytes(point.to_xy_bytes_be())
    flat = [int.from_bytes(raw[i : i + 48], "big") for i in range(0, len(raw), 48)]
    d = curve.degree
    return (tuple(flat[:d]), tuple(flat[d:])) if any(flat) else None
