"""Sums of all points and of chosen ones, against integers."""

from __future__ import annotations

import random

import pytest
import torch

from curve_samples import OUTSIDE_G1, multiples
from torchzk.backends import Backend
from torchzk.errors import LayoutError
from torchzk.ops.layout import points_to_rows
from torchzk.params import integers
from torchzk.params.curves import CURVES, G1, G2, Curve, Point

both = pytest.mark.parametrize("curve", CURVES.values(), ids=CURVES.keys())


def total(curve: Curve, points: list[Point]) -> Point:
    out: Point = None
    for p in points:
        out = integers.add(curve, out, p)
    return out


def bits(chosen: list[bool], device: torch.device) -> torch.Tensor:
    return torch.tensor(chosen, dtype=torch.bool, device=device)


def indices(chosen: list[int], device: torch.device) -> torch.Tensor:
    return torch.tensor(chosen, dtype=torch.int64, device=device)


@both
@pytest.mark.parametrize("n", [0, 1, 2, 3, 5, 8, 33])
def test_sums(backend: Backend, device: torch.device, curve: Curve, n: int) -> None:
    """Infinite, repeated and opposite points, chosen by bits, by a list, and all of them."""
    rng = random.Random(n)
    known = [p for _, p in multiples(curve, n, seed=n)]
    rows = points_to_rows(known, curve, device)
    assert backend.batch_add(rows, None, curve) == total(curve, known)
    some = [rng.random() < 0.5 for _ in range(n)]
    want = total(curve, [p for p, is_chosen in zip(known, some, strict=True) if is_chosen])
    assert backend.batch_add(rows, bits(some, device), curve) == want
    names = [i for i, is_chosen in enumerate(some) if is_chosen]
    rng.shuffle(names)
    assert backend.batch_add(rows, indices(names, device), curve) == want
    again = rng.choices(range(n), k=3 * n) if n else []
    want = total(curve, [known[i] for i in again])
    assert backend.batch_add(rows, indices(again, device), curve) == want


@both
def test_all_one_and_none(backend: Backend, device: torch.device, curve: Curve) -> None:
    known = [p for _, p in multiples(curve, 9, seed=1)]
    rows = points_to_rows(known, curve, device)
    everything = total(curve, known)
    assert backend.batch_add(rows, bits([True] * 9, device), curve) == everything
    assert backend.batch_add(rows, indices([*range(9)], device), curve) == everything
    assert backend.batch_add(rows, bits([False] * 9, device), curve) is None
    assert backend.batch_add(rows, indices([], device), curve) is None
    for i in range(9):
        one = [j == i for j in range(9)]
        assert backend.batch_add(rows, bits(one, device), curve) == known[i]
        assert backend.batch_add(rows, indices([i], device), curve) == known[i]


@both
def test_points_that_meet_themselves_and_their_opposites(
    backend: Backend, device: torch.device, curve: Curve
) -> None:
    g = curve.generator
    rows = points_to_rows([g, integers.neg(curve, g), None], curve, device)
    for names in ([0, 1], [1, 0, 2, 2], [2], [2, 2, 2], [0, 0, 1, 1], [0, 1] * 7):
        assert backend.batch_add(rows, indices(names, device), curve) is None
    for k in (2, 3, 4, 31, 32):
        want = integers.mul(curve, k, g)
        assert backend.batch_add(rows, indices([0] * k, device), curve) == want
        assert backend.batch_add(rows, indices([0] * k + [1, 0, 2], device), curve) == want


def test_a_point_outside_the_subgroup(backend: Backend, device: torch.device) -> None:
    """Of order 3: two of them are the opposite of one, three are nothing."""
    rows = points_to_rows([OUTSIDE_G1], G1, device)
    for k in range(1, 8):
        got = backend.batch_add(rows, indices([0] * k, device), G1)
        assert got == integers.mul(G1, k, OUTSIDE_G1)


@both
def test_a_long_sum(backend: Backend, device: torch.device, curve: Curve) -> None:
    """Over several pieces of the batch."""
    rng = random.Random(2)
    known = multiples(curve, 64, seed=3)
    rows = points_to_rows([p for _, p in known], curve, device)
    names = [rng.randrange(64) for _ in range(10000 // curve.degree + 1)]
    log = sum(known[i][0] for i in names)
    got = backend.batch_add(rows, indices(names, device), curve)
    assert got == integers.mul(curve, log % curve.scalars.modulus, curve.generator)


def test_a_choice_that_does_not_fit_is_refused(backend: Backend, device: torch.device) -> None:
    rows = points_to_rows([G1.generator] * 3, G1, device)
    for bad in ([0, 3], [-1]):
        with pytest.raises(LayoutError, match="outside"):
            backend.batch_add(rows, indices(bad, device), G1)
    for wrong in (
        bits([True] * 2, device),
        indices([0], device).int(),
        bits([True] * 3, device)[None],
    ):
        with pytest.raises(LayoutError, match="chooses none"):
            backend.batch_add(rows, wrong, G1)
    with pytest.raises(LayoutError, match="points are int32"):
        backend.batch_add(rows, None, G2)
