"""Fp2 operations against Python integers."""

from __future__ import annotations

import random

import pytest
import torch

from torchzk import ops
from torchzk.errors import LayoutError
from torchzk.ops.layout import pack_mont, unpack_mont
from torchzk.params.fields import FP
from torchzk.params.integers import coordinate_inverse, coordinate_mul

P = FP.modulus
Pair = tuple[int, ...]


def sample(n: int, seed: int) -> list[Pair]:
    """Edge cases first, random after."""
    rng = random.Random(seed)
    edges = [(0, 0), (1, 0), (0, 1), (P - 1, P - 1), (P // 2, P // 2 + 1), (P - 1, 1), (0, P - 1)]
    return (edges + [(rng.randrange(P), rng.randrange(P)) for _ in range(n)])[:n]


def to_planes(values: list[Pair], device: torch.device) -> torch.Tensor:
    return torch.stack([pack_mont([v[i] for v in values], FP, device) for i in (0, 1)])


def from_planes(x: torch.Tensor) -> list[Pair]:
    return list(zip(*(unpack_mont(plane, FP) for plane in x), strict=True))


@pytest.mark.parametrize("n", [0, 1, 60, 2049])
def test_operations(device: torch.device, n: int) -> None:
    x, y = sample(n, 1), sample(n, 2)[::-1]
    a, b = to_planes(x, device), to_planes(y, device)
    pairs = list(zip(x, y, strict=True))
    sums = [((u[0] + v[0]) % P, (u[1] + v[1]) % P) for u, v in pairs]
    differences = [((u[0] - v[0]) % P, (u[1] - v[1]) % P) for u, v in pairs]
    assert from_planes(ops.fp2_add(a, b, FP)) == sums
    assert from_planes(ops.fp2_sub(a, b, FP)) == differences
    assert from_planes(ops.fp2_neg(a, FP)) == [(-u[0] % P, -u[1] % P) for u in x]
    assert from_planes(ops.fp2_mul(a, b, FP)) == [coordinate_mul(u, v, P) for u, v in pairs]
    assert from_planes(ops.fp2_sqr(a, FP)) == [coordinate_mul(u, u, P) for u in x]


@pytest.mark.parametrize("n", [0, 1, 200])
def test_batch_inverse(device: torch.device, n: int) -> None:
    """Zero gives zero."""
    x = sample(n, 3)
    expected = [coordinate_inverse(u, P) if any(u) else (0, 0) for u in x]
    assert from_planes(ops.fp2_batch_inverse(to_planes(x, device), FP)) == expected


def test_wrong_operands_are_refused(device: torch.device) -> None:
    good = to_planes(sample(4, 5), device)
    for bad in (good[:1], good[:, :, :3], good[:, :8], good.to(torch.int64)):
        with pytest.raises(LayoutError):
            ops.fp2_add(good, bad, FP)
        with pytest.raises(LayoutError):
            ops.fp2_mul(good, bad, FP)
