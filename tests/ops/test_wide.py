"""Wide elements at the limits their documentation states."""

from __future__ import annotations

import random

import pytest
import torch

from torchzk.ops import wide
from torchzk.ops.layout import unpack
from torchzk.params.fields import FIELDS, FP, PrimeField

fields = pytest.mark.parametrize("field", FIELDS.values(), ids=FIELDS.keys())
LIMIT = (1 << 23) + (1 << 7)


def extreme(field: PrimeField, n: int, seed: int) -> list[list[int]]:
    """Words of normal elements: all as large as allowed, of one sign, alternating or random."""
    rng = random.Random(seed)
    w = wide.n_words(field)
    top = 6 * (field.modulus >> 24 * (w - 1)) // 10 - 1
    signs = [[1] * w, [-1] * w, [(-1) ** i for i in range(w)]]
    signs += [[rng.choice((-1, 1)) for _ in range(w)] for _ in range(n)]
    return [[s * LIMIT for s in row[:-1]] + [row[-1] * top] for row in signs]


def value(words: list[int]) -> int:
    return sum(v << 24 * i for i, v in enumerate(words))


def element(rows: list[list[int]], device: torch.device) -> torch.Tensor:
    return torch.tensor(rows, dtype=torch.float64, device=device).t().contiguous()


@fields
@pytest.mark.parametrize("i, j", [(1, 1), (7, 1), (1, 7), (2, 3), (3, 2)])
def test_products_of_sums_are_exact(
    device: torch.device, field: PrimeField, i: int, j: int
) -> None:
    x, y = extreme(field, 40, 1), extreme(field, 40, 2)[::-1]
    product = wide.mul(i * element(x, device), j * element(y, device), field)
    expected = [
        i * value(u) * j * value(v) * field.r_inv % field.modulus for u, v in zip(x, y, strict=True)
    ]
    assert unpack(wide.to_limbs(product, field)) == expected
    assert product.abs().max() <= LIMIT


@pytest.mark.parametrize("i, j", [(3, 1), (1, 3)])
def test_products_of_sums_in_fp2_are_exact(device: torch.device, i: int, j: int) -> None:
    x, y = extreme(FP, 41, 3), extreme(FP, 41, 4)
    a, b = element(x, device).view(-1, 2, 22), element(y, device).view(-1, 2, 22)
    a, b = a.transpose(0, 1), b.transpose(0, 1)
    got = wide.mul_ext(i * a, j * b, FP)
    k, p = i * j * FP.r_inv, FP.modulus
    u, v = [value(r) for r in x], [value(r) for r in y]
    pairs = list(
        zip(zip(u[:22], u[22:], strict=True), zip(v[:22], v[22:], strict=True), strict=True)
    )
    assert unpack(wide.to_limbs(got[0], FP)) == [
        k * (c[0] * d[0] - c[1] * d[1]) % p for c, d in pairs
    ]
    assert unpack(wide.to_limbs(got[1], FP)) == [
        k * (c[0] * d[1] + c[1] * d[0]) % p for c, d in pairs
    ]


@fields
def test_reduction_of_long_words(device: torch.device, field: PrimeField) -> None:
    rng = random.Random(5)
    w = wide.n_words(field)
    rows = [[rng.choice((-1, 1)) * ((1 << 40) - rng.randrange(9)) for _ in range(w)]] * 3
    rows += [[(1 << 40) - 1] * w, [1 - (1 << 40)] * w]
    normal = wide.reduce(element(rows, device), field)
    assert normal.abs().max() <= LIMIT
    assert all(
        abs(value([int(v) for v in row])) <= 0.6 * field.modulus for row in normal.t().tolist()
    )
    expected = [value(row) % field.modulus for row in rows]
    assert unpack(wide.to_limbs(element(rows, device), field)) == expected


@fields
def test_only_zero_is_zero(device: torch.device, field: PrimeField) -> None:
    """Also where all words but one weigh against the highest."""
    w = wide.n_words(field)
    rows = [[0] * w] + [[-LIMIT] * k + [1] + [0] * (w - k - 1) for k in range(w)]
    got = wide.is_zero(element(rows, device), field)
    assert got.tolist() == [True] + [False] * w
