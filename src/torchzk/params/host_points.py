"""Single points in the pairing library, py_arkworks_bls12381, and sums of few of them.

What is left of a proof for the host takes the library a millisecond, and Python's integers twenty
or more, all of it under the interpreter's lock.

Points cross over as bytes: 48 big-endian bytes a number, and of an Fp2 coordinate c0 first, which
is not the order of key files (spec/groth16.md section 7 has c1 first).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from py_arkworks_bls12381 import G1Point, G2Point, Scalar

from torchzk.params import integers
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


def to_scalar(value: int) -> Scalar:
    """An integer modulo r."""
    return Scalar.from_be_bytes((value % FR.modulus).to_bytes(FR.n_bytes, "big"))


def in_subgroup(curve: Curve, point: Point) -> bool:
    """Whether a point of the curve is of order dividing r; raises ValueError off the curve.

    By the library's endomorphism test: 40 us, where `integers.in_subgroup` takes 10 ms.
    """
    inside: bool = _of(curve)(point).is_in_subgroup()
    return inside


def scalar_mul(curve: Curve, scalar: int, point: Point) -> Point:
    """`scalar` times a point of the subgroup; `scalar` is reduced modulo r.

    Raises:
        ValueError: The point is off the curve.
    """
    return from_library(_of(curve)(point) * to_scalar(scalar))


def sum_of_multiples(curve: Curve, terms: Sequence[tuple[int, Point]]) -> Point:
    """The sum of k P over `terms` (k, P), points of the subgroup.

    A point that is off the curve, which a device at fault can make, is added by the same formulas
    as any other: the proof it goes into is not one, and is found out as such.
    """
    here = _of(curve)
    total = here(None)
    try:
        for k, point in terms:
            total += here(point) * to_scalar(k)
    except ValueError:
        return _slowly(curve, [(k % FR.modulus, point) for k, point in terms])
    return from_library(total)


def fold(sums: Mapping[int, Point], curve: Curve) -> Point:
    """The sum of 2^k sums[k] by Horner's rule: the last step of an MSM, 255 doublings.

    For points off the curve see `sum_of_multiples`.
    """
    here = _of(curve)
    total = here(None)
    try:
        for k in reversed(range(max(sums, default=-1) + 1)):
            total += total
            if k in sums:
                total += here(sums[k])
    except ValueError:
        return _slowly(curve, [(1 << k, point) for k, point in sums.items()])
    return from_library(total)


def _slowly(curve: Curve, terms: Sequence[tuple[int, Point]]) -> Point:
    total: Point = None
    for k, point in terms:
        total = integers.add(curve, total, integers.mul(curve, k, point))
    return total


def _of(curve: Curve) -> Callable[[Point], Any]:
    """Takes a point of the curve to the library."""
    return to_g1 if curve.degree == 1 else to_g2


def _to_bytes(point: tuple[tuple[int, ...], tuple[int, ...]]) -> bytes:
    return b"".join(c.to_bytes(FP.n_bytes, "big") for xy in point for c in xy)
