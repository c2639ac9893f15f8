"""Affine and XYZZ operations against integers, on every kind of pair."""

from __future__ import annotations

import random
from functools import cache

import pytest
import torch

from curve_samples import OUTSIDE_G1, multiples
from torchzk import ops
from torchzk.backends import Backend
from torchzk.errors import LayoutError
from torchzk.ops.layout import points_to_rows, rows_to_points
from torchzk.params import integers
from torchzk.params.curves import CURVES, G1, G2, Curve, Point

both = pytest.mark.parametrize("curve", CURVES.values(), ids=CURVES.keys())


@cache
def known_sum(curve: Curve, p: Point, q: Point) -> Point:
    return integers.add(curve, p, q)


def pairs(curve: Curve, n: int, seed: int) -> tuple[list[Point], list[Point]]:
    """Pairs from a dozen points: infinite, equal and opposite ones among them."""
    known = [p for _, p in multiples(curve, 12, seed)] + [None, curve.generator]
    known += [integers.neg(curve, p) for p in known[:3]]
    if curve is G1:
        known += [OUTSIDE_G1, integers.neg(G1, OUTSIDE_G1)]
    rng = random.Random(seed)
    left, right = rng.choices(known, k=n), rng.choices(known, k=n)
    # the first of them once each, even in a batch of a few
    edges = [(None, None), (known[0], known[0]), (known[0], integers.neg(curve, known[0]))]
    edges += [(None, known[1]), (known[1], None)]
    return (
        ([p for p, _ in edges] + left)[:n],
        ([q for _, q in edges] + right)[:n],
    )


@both
@pytest.mark.parametrize("n", [0, 1, 2, 5, 64, 300])
def test_sums_of_every_kind_of_pair(
    backend: Backend, device: torch.device, curve: Curve, n: int
) -> None:
    p, q = pairs(curve, n, seed=n)
    got = backend.add_affine(
        points_to_rows(p, curve, device), points_to_rows(q, curve, device), curve
    )
    assert got.shape == (n, *curve.row_shape) and got.dtype == torch.int32
    assert rows_to_points(got, curve) == [known_sum(curve, a, b) for a, b in zip(p, q, strict=True)]


@both
def test_a_special_pair_in_any_piece(backend: Backend, device: torch.device, curve: Curve) -> None:
    """Ordinary sums over several pieces of the batch, with one odd pair in the last."""
    n = 8192 + 70
    g = curve.generator
    p = [integers.mul(curve, k, g) for k in range(1, 8)] * (n // 7 + 1)
    q = [integers.mul(curve, k, g) for k in range(11, 22)] * (n // 11 + 1)
    p, q = p[:n], q[:n]
    q[n - 30] = integers.neg(curve, p[n - 30])
    q[n - 20] = p[n - 20]
    got = backend.add_affine(
        points_to_rows(p, curve, device), points_to_rows(q, curve, device), curve
    )
    assert rows_to_points(got, curve) == [known_sum(curve, a, b) for a, b in zip(p, q, strict=True)]


@both
@pytest.mark.parametrize("n", [0, 1, 40])
def test_negation(device: torch.device, curve: Curve, n: int) -> None:
    p, _ = pairs(curve, n, seed=7)
    got = ops.neg_affine(points_to_rows(p, curve, device), curve)
    assert rows_to_points(got, curve) == [integers.neg(curve, x) for x in p]


@both
def test_on_curve(backend: Backend, device: torch.device, curve: Curve) -> None:
    points, _ = pairs(curve, 60, seed=8)
    rows = points_to_rows(points, curve, device)
    assert backend.on_curve(rows, curve).tolist() == [True] * 60
    assert backend.on_curve(rows[:0], curve).shape == (0,)

    x, y = curve.generator
    p = curve.field.modulus
    zero = (0,) * curve.degree
    bad: list[Point] = [(x, zero), (zero, y), (y, x), ((x[0] + 1, *x[1:]), y)]
    bad += [(x, (*y[:-1], y[-1] ^ 1)), (x, tuple((c * 2) % p for c in y))]
    got = backend.on_curve(points_to_rows([*bad, curve.generator], curve, device), curve)
    assert got.tolist() == [integers.is_on_curve(curve, q) for q in bad] + [True]
    assert not got[:-1].any()


@both
@pytest.mark.parametrize("n", [0, 1, 2, 5, 300])
def test_xyzz_sums(device: torch.device, curve: Curve, n: int) -> None:
    p, q = pairs(curve, n, seed=n + 1)
    a, b = points_to_rows(p, curve, device), points_to_rows(q, curve, device)
    expected = [known_sum(curve, x, y) for x, y in zip(p, q, strict=True)]

    total = ops.xyzz_add_affine(ops.affine_to_xyzz(a, curve), b, curve)
    assert rows_to_points(ops.xyzz_to_affine(total, curve), curve) == expected
    # infinity is all zero, nothing else has ZZ = 0
    assert (total[:, 2:].flatten(1) == 0).all(1).tolist() == [x is None for x in expected]
    assert not total[torch.tensor([x is None for x in expected], dtype=torch.bool)].any()

    # coordinates with ZZ other than 1, on either side and on both
    again = ops.xyzz_add_affine(total, b, curve)
    twice = [known_sum(curve, x, y) for x, y in zip(expected, q, strict=True)]
    assert rows_to_points(ops.xyzz_to_affine(again, curve), curve) == twice
    both_sides = ops.xyzz_add(total, again, curve)
    assert rows_to_points(ops.xyzz_to_affine(both_sides, curve), curve) == [
        known_sum(curve, x, y) for x, y in zip(expected, twice, strict=True)
    ]


@both
def test_xyzz_equal_and_opposite_in_unequal_coordinates(device: torch.device, curve: Curve) -> None:
    """2 g as a double and as 3 g - g have different ZZ, but are one point."""
    g = curve.generator
    one, three = ([integers.mul(curve, k, g)] for k in (1, 3))
    minus = [integers.neg(curve, g)]
    a, b, c = (points_to_rows(x, curve, device) for x in (one, three, minus))
    double = ops.xyzz_add_affine(ops.affine_to_xyzz(a, curve), a, curve)
    other = ops.xyzz_add_affine(ops.affine_to_xyzz(b, curve), c, curve)
    assert not torch.equal(double, other)
    four = ops.xyzz_to_affine(ops.xyzz_add(double, other, curve), curve)
    assert rows_to_points(four, curve) == [integers.mul(curve, 4, g)]

    opposite = ops.xyzz_add_affine(
        ops.affine_to_xyzz(c, curve), points_to_rows(minus, curve, device), curve
    )
    assert not ops.xyzz_add(other, opposite, curve).any()


def test_wrong_operands_are_refused(backend: Backend, device: torch.device) -> None:
    g1 = points_to_rows([G1.generator] * 3, G1, device)
    g2 = points_to_rows([G2.generator] * 3, G2, device)
    for p, q in ((g1, g1[:2]), (g1, g2), (g2, g2), (g1.long(), g1)):
        with pytest.raises(LayoutError):
            backend.add_affine(p, q, G1)
    with pytest.raises(LayoutError, match="one by one, got .* on meta"):
        backend.add_affine(g1, g1.to("meta"), G1)
    with pytest.raises(LayoutError):
        backend.on_curve(g2, G1)
    with pytest.raises(LayoutError):
        ops.xyzz_add(g1, g1, G1)
    xyzz = ops.affine_to_xyzz(g1, G1)
    with pytest.raises(LayoutError):
        ops.xyzz_add(xyzz, xyzz[:1], G1)


@both
def test_xyzz_infinity_with_any_x_and_y(device: torch.device, curve: Curve) -> None:
    g = points_to_rows([curve.generator], curve, device)
    one = ops.affine_to_xyzz(g, curve)
    infinite = one.clone()
    infinite[:, 2:] = 0
    assert not ops.xyzz_add(infinite, infinite, curve).any()
    assert torch.equal(ops.xyzz_add(infinite, one, curve), one)
    assert torch.equal(ops.xyzz_add(one, infinite, curve), one)
    assert not ops.xyzz_to_affine(infinite, curve).any()
