"""Pairings and sums of many points, by the pairing library py_arkworks_bls12381."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from py_arkworks_bls12381 import GT, G1Point, G2Point

from torchzk.params.host_points import to_scalar


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
