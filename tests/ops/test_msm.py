"""Multi-scalar multiplication and bit sums against integers, a library, and identities."""

from __future__ import annotations

import random

import pytest
import torch

from curve_samples import EDGE_SCALARS, OUTSIDE_G1, R, library_msm, multiples, scalars, weighted
from torchzk.backends import Backend
from torchzk.errors import LayoutError
from torchzk.ops import msm as msm_in_pieces
from torchzk.ops.digits import signed_digits, unsigned_digits
from torchzk.ops.layout import pack, points_to_rows
from torchzk.params import integers
from torchzk.params.curves import CURVES, G1, Curve, Point
from torchzk.params.fields import FR

both = pytest.mark.parametrize("curve", CURVES.values(), ids=CURVES.keys())


def total(curve: Curve, factors: list[int], logs: list[int]) -> Point:
    """sum factors[i] logs[i] generator, by one multiplication."""
    dot = sum(f * k for f, k in zip(factors, logs, strict=True))
    return integers.mul(curve, dot % R, curve.generator)


@both
@pytest.mark.parametrize("n", [0, 1, 2, 3, 8, 70])
def test_small_sums(backend: Backend, device: torch.device, curve: Curve, n: int) -> None:
    """Edge scalars, zero, repeated and opposite points."""
    known = multiples(curve, n, seed=n)
    rows = points_to_rows([p for _, p in known], curve, device)
    factors = scalars(n, seed=n)
    expected = weighted(curve, factors, [p for _, p in known])
    assert backend.msm(pack(factors, FR, device), rows, curve) == expected


@both
@pytest.mark.parametrize("scalar", [*EDGE_SCALARS, 0xFEDCBA987654321 << 150])
def test_all_scalars_equal(
    backend: Backend, device: torch.device, curve: Curve, scalar: int
) -> None:
    known = multiples(curve, 33, seed=5)
    rows = points_to_rows([p for _, p in known], curve, device)
    got = backend.msm(pack([scalar] * 33, FR, device), rows, curve)
    assert got == total(curve, [scalar] * 33, [k for k, _ in known])


@both
def test_everything_cancels(backend: Backend, device: torch.device, curve: Curve) -> None:
    """P and -P under one scalar, and P under s and r - s."""
    g = curve.generator
    rows = points_to_rows([g, integers.neg(curve, g), g, g], curve, device)
    s = scalars(20, seed=6)[-1]
    assert backend.msm(pack([s, s, s, R - s], FR, device), rows, curve) is None


def test_points_outside_the_subgroup(backend: Backend, device: torch.device) -> None:
    """Scalars act as integers, not modulo r."""
    for s in (1, 2, 3, 4, R - 1, R // 3):
        got = backend.msm(pack([s], FR, device), points_to_rows([OUTSIDE_G1], G1, device), G1)
        assert got == integers.mul(G1, s, OUTSIDE_G1)


@both
def test_middling_sum_against_a_library(
    backend: Backend, device: torch.device, curve: Curve
) -> None:
    n, rng = 1500, random.Random(8)
    logs, factors = [rng.randrange(R) for _ in range(n)], scalars(n, seed=9)
    rows = backend.fixed_base(pack(logs, FR, device), curve.generator, curve)
    got = backend.msm(pack(factors, FR, device), rows, curve)
    assert got == library_msm(curve, factors, logs)


@both
def test_large_sum_by_logarithms(backend: Backend, device: torch.device, curve: Curve) -> None:
    """Mostly bits, as a witness is, and the rest of full size."""
    n, rng = 12000 // curve.degree, random.Random(10)
    logs = [rng.randrange(R) for _ in range(n)]
    factors = [rng.randrange(R) if rng.random() < 0.3 else rng.randrange(2) for _ in range(n)]
    rows = backend.fixed_base(pack(logs, FR, device), curve.generator, curve)
    assert backend.msm(pack(factors, FR, device), rows, curve) == total(curve, factors, logs)


@both
def test_pieces_do_not_change_the_sum(device: torch.device, curve: Curve) -> None:
    known = multiples(curve, 2500, seed=11)
    rows = points_to_rows([p for _, p in known], curve, device)
    factors = scalars(2500, seed=12)
    x = pack(factors, FR, device)
    expected = total(curve, factors, [k for k, _ in known])
    assert msm_in_pieces(x, rows, curve) == expected
    # the bound is met by the smallest piece, 1,024 points
    assert msm_in_pieces(x, rows, curve, limit_bytes=1) == expected


@both
@pytest.mark.parametrize("n_bits", [1, 12, 13, 64, 255])
def test_bit_sums(backend: Backend, device: torch.device, curve: Curve, n_bits: int) -> None:
    rng = random.Random(n_bits)
    known = multiples(curve, 50, seed=13)
    rows = points_to_rows([p for _, p in known], curve, device)
    top = min(1 << n_bits, R)
    factors = [0, top - 1, 1] + [rng.randrange(top) for _ in range(47)]
    expected = [
        total(curve, [f >> i & 1 for f in factors], [k for k, _ in known]) for i in range(n_bits)
    ]
    assert backend.bit_sums(pack(factors, FR, device), rows, curve, n_bits) == expected


def test_bit_sums_of_nothing(backend: Backend, device: torch.device) -> None:
    empty = points_to_rows([], G1, device)
    assert backend.bit_sums(pack([], FR, device), empty, G1, 5) == [None] * 5


def test_bit_sums_find_a_point_outside_the_subgroup(backend: Backend, device: torch.device) -> None:
    points = [p for _, p in multiples(G1, 300, seed=14)]
    rng = random.Random(15)
    labels = [rng.randrange(1, 1 << 16) for _ in points]

    def all_inside() -> bool:
        rows = points_to_rows(points, G1, device)
        sums = backend.bit_sums(pack(labels, FR, device), rows, G1, 16)
        return all(integers.in_subgroup(G1, p) for p in sums)

    assert all_inside()
    points[123] = integers.add(G1, points[123], OUTSIDE_G1)
    assert not all_inside()


def test_wrong_operands_are_refused(backend: Backend, device: torch.device) -> None:
    rows = points_to_rows([G1.generator] * 4, G1, device)
    good = pack([1, 2, 3, 8], FR, device)
    for x in (good[:, :3], good[:7], good.long(), good.view(8, 2, 2)):
        with pytest.raises(LayoutError):
            backend.msm(x, rows, G1)
        with pytest.raises(LayoutError):
            backend.bit_sums(x, rows, G1, 8)
    with pytest.raises(LayoutError, match="below 2\\^3"):
        backend.bit_sums(good, rows, G1, 3)


@pytest.mark.parametrize("bits", [2, 5, 8, 12, 13, 16])
def test_digits(device: torch.device, bits: int) -> None:
    """Any limbs, canonical or not."""
    values = [*scalars(40, seed=bits), (1 << 256) - 1, 1 << 255]
    x = pack(values, FR, device)
    signed = signed_digits(x, bits)
    assert signed.abs().max() <= 1 << bits - 1
    unsigned = unsigned_digits(x, bits, -(-256 // bits))
    assert unsigned.min() >= 0 and unsigned.max() < 1 << bits
    for digits in (signed, unsigned):
        columns = digits.t().tolist()
        assert [sum(d << bits * i for i, d in enumerate(c)) for c in columns] == values
