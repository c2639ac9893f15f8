"""Sums of few points in the pairing library, against Python's integers."""

from __future__ import annotations

import pytest

from torchzk.params import integers
from torchzk.params.curves import CURVES, Curve, Point
from torchzk.params.fields import FR
from torchzk.params.host_points import fold, in_subgroup, scalar_mul, sum_of_multiples

both = pytest.mark.parametrize("curve", CURVES.values(), ids=CURVES.keys())


def by_integers(curve: Curve, terms: list[tuple[int, Point]]) -> Point:
    total: Point = None
    for k, point in terms:
        total = integers.add(curve, total, integers.mul(curve, k, point))
    return total


@both
def test_sum_of_multiples(curve: Curve) -> None:
    """Infinite sums, equal and opposite terms, and multipliers that are not reduced."""
    one = curve.generator
    two = integers.mul(curve, 2, one)
    r = FR.modulus
    cases: list[tuple[list[tuple[int, Point]], Point]] = [
        ([], None),
        ([(5, None), (0, two)], None),
        ([(2, one), (1, two)], integers.mul(curve, 4, one)),
        ([(2, one), (-1, two)], None),
        ([(r + 3, one), (-r * r - 1, two)], one),
        ([(r - 1, one)], integers.neg(curve, one)),
    ]
    for terms, want in cases:
        assert sum_of_multiples(curve, terms) == want
    assert scalar_mul(curve, r + 2, one) == two


@both
def test_fold(curve: Curve) -> None:
    """Infinite sums, equal and opposite ones on the way."""
    one = curve.generator
    two = integers.mul(curve, 2, one)
    for sums in (
        {},
        {3: one},
        {3: None, 1: one},
        {1: one, 0: two},
        {1: one, 0: integers.neg(curve, two)},
    ):
        assert fold(sums, curve) == by_integers(curve, [(1 << k, sums[k]) for k in sums])
    many = {k: integers.mul(curve, k * k + 1, one) for k in range(0, 40, 3)}
    log = sum((k * k + 1) << k for k in many)
    assert fold(many, curve) == integers.mul(curve, log, one)


@both
def test_points_off_the_curve_are_added_all_the_same(curve: Curve) -> None:
    """What a broken device computes becomes a proof, which is then found not to be one."""
    x, y = curve.generator
    bad = (x, (y[0] + 1, *y[1:]))
    assert not integers.is_on_curve(curve, bad)
    terms = [(1, curve.generator), (FR.modulus + 6, bad), (3, None)]
    want = by_integers(curve, [(1, curve.generator), (6, bad)])
    assert want is not None and not integers.is_on_curve(curve, want)
    assert sum_of_multiples(curve, terms) == want
    terms = [(1, curve.generator), (2, bad), (4, bad)]
    assert fold({0: curve.generator, 1: bad, 2: bad}, curve) == by_integers(curve, terms)
    with pytest.raises(ValueError, match="not on"):
        in_subgroup(curve, want)
