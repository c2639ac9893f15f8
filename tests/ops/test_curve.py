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
