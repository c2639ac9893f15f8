"""The one place that talks to the pairing library, py_arkworks_bls12381.

Points cross over as bytes: 48 big-endian bytes a number, and of an Fp2 coordinate c0 first, which
is not the order of key files (spec/groth16.md section 7 has c1 first).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from py_arkworks_bls12381 import GT, G1Point, G2Point, Scalar

from torchzk.params.curves import Curve, Point
from torchzk.params.fields import FP, FR


def to_g1(point: Point) -> G1Point:
    """A point of G1 for the library; raises ValueError off the curve."""
    if point is None:
        return G1Point.identity()
    return G1Point.from_xy_bytes_unchecked_be(_to_bytes(point))


def to_g2(point: Point) -> G2Point:
    """A point of G2 for the library; raises ValueError off the curve."""
    if point is None:
        return G2Point.identity()
    return G2Point.from_xy_bytes_unchecked_be(_to_bytes(point))


def from_library(element: G1Point | G2Point) -> Point:
    """A point of the library in canonical integers."""
    raw = element.to_xy_bytes_be()
    if not any(raw):
        # the library's infinity: zeros, without the flag of the file format
        return None
    n = FP.n_bytes
    numbers = [int.from_bytes(raw[i : i + n], "big") for i in range(0, len(raw), n)]
    half = len(numbers) // 2
    return tuple(numbers[:half]), tuple(numbers[half:])


def in_subgroup(curve: Curve, point: Point) -> bool:
    """Whether a point of the curve is of order dividing r; raises ValueError off the curve.

    By the library's endomorphism test: 40 us, where `params.integers.in_subgroup` takes 10 ms.
    """
    if curve.degree == 1:
        return to_g1(point).is_in_subgroup()
    return to_g2(point).is_in_subgroup()


def scalar_mul(curve: Curve, scalar: int, point: Point) -> Point:
    """`scalar` times a point of the subgroup; `scalar` is reduced modulo r."""
    if curve.degree == 1:
        return from_library(to_g1(point) * to_scalar(scalar))
    return from_library(to_g2(point) * to_scalar(scalar))


def to_scalar(value: int) -> Scalar:
    """An integer modulo r."""
    return Scalar.from_be_bytes((value % FR.modulus).to_bytes(FR.n_bytes, "big"))


def combine(points: Sequence[G1Point], scalars: Iterable[int]) -> G1Point:
    """Sum of scalars by points of G1; raises ValueError unless there are as many of both."""
    multipliers = [to_scalar(s) for s in scalars]
    if len(points) != len(multipliers):
        # the library would silently go by the shorter list
        raise ValueError(f"{len(points)} points, {len(multipliers)} scalars")
    return G1Point.multiexp_unchecked(list(points), multipliers)


def product_is_one(pairs: Sequence[tuple[G1Point, G2Point]]) -> bool:
    """Whether the product of the pairings is one; points are trusted to be in their groups."""
    return GT.pairing_check([p for p, _ in pairs], [q for _, q in pairs])


def _to_bytes(point: tuple[tuple[int, ...], tuple[int, ...]]) -> bytes:
    return b"".join(c.to_bytes(FP.n_bytes, "big") for xy in point for c in xy)
