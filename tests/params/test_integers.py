"""Curve arithmetic on integers against an independent library."""

from __future__ import annotations

import pytest

from curve_samples import EDGE_SCALARS, OUTSIDE_G1, R, library_multiple, multiples
from torchzk.params import integers
from torchzk.params.curves import CURVES, G1, Curve

both = pytest.mark.parametrize("curve", CURVES.values(), ids=CURVES.keys())


@both
@pytest.mark.parametrize("scalar", [*EDGE_SCALARS, 0x1234567890ABCDEF << 100])
def test_multiples_of_the_generator(curve: Curve, scalar: int) -> None:
    assert integers.mul(curve, scalar, curve.generator) == library_multiple(curve, scalar)


@both
def test_sums_of_every_kind_of_pair(curve: Curve) -> None:
    """Infinite, equal, opposite and other pairs, by their discrete logarithms."""
    kinds = multiples(curve, 12, seed=3) + [(0, None), (1, curve.generator)]
    for k, p in kinds:
        for m, q in kinds:
            expected = library_multiple(curve, (k + m) % R)
            assert integers.add(curve, p, q) == expected


@both
def test_group_laws(curve: Curve) -> None:
    (_, p), (_, q), (_, s) = [kp for kp in multiples(curve, 40, seed=4) if kp[1]][:3]
    add = integers.add
    assert add(curve, p, integers.neg(curve, p)) is None
    assert add(curve, add(curve, p, q), s) == add(curve, p, add(curve, q, s))
    assert integers.mul(curve, -5, p) == integers.neg(curve, integers.mul(curve, 5, p))


@both
def test_membership(curve: Curve) -> None:
    assert integers.in_subgroup(curve, curve.generator)
    assert integers.in_subgroup(curve, None)
    x, y = curve.generator
    assert not integers.is_on_curve(curve, (x, (y[0] + 1, *y[1:])))
    assert not integers.in_subgroup(curve, (y, x))


def test_a_point_of_another_order_is_not_in_the_subgroup() -> None:
    assert integers.is_on_curve(G1, OUTSIDE_G1)
    assert not integers.in_subgroup(G1, OUTSIDE_G1)
    assert integers.mul(G1, 3, OUTSIDE_G1) is None
    assert integers.mul(G1, 2, OUTSIDE_G1) == integers.neg(G1, OUTSIDE_G1)
