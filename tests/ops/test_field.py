"""Field operations against Python integers."""

from __future__ import annotations

import random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from torchzk.backends import Backend, load_backend
from torchzk.errors import LayoutError
from torchzk.ops.layout import pack, unpack
from torchzk.params.fields import FIELDS, FR, PrimeField

fields = pytest.mark.parametrize("field", FIELDS.values(), ids=FIELDS.keys())


def sample(field: PrimeField, n: int, seed: int) -> list[int]:
    """Edge cases first, random after."""
    rng, p = random.Random(seed), field.modulus
    edges = [0, 1, p - 1, p // 2, p // 2 + 1, field.r, field.r_inv, p - field.r]
    edges += [1 << 24 * k for k in range(1, 10)] + [(1 << 32 * k) - 1 for k in range(1, 8)]
    return (edges + [rng.randrange(p) for _ in range(n)])[:n]


@fields
@pytest.mark.parametrize("n", [0, 1, 2, 33, 2048, 2049, 5000])
def test_binary_operations(
    backend: Backend, device: torch.device, field: PrimeField, n: int
) -> None:
    p = field.modulus
    x, y = sample(field, n, 1), sample(field, n, 2)[::-1]
    a, b = pack(x, field, device), pack(y, field, device)
    pairs = list(zip(x, y, strict=True))
    assert unpack(backend.add(a, b, field)) == [(u + v) % p for u, v in pairs]
    assert unpack(backend.sub(a, b, field)) == [(u - v) % p for u, v in pairs]
    expected = [u * v * field.r_inv % p for u, v in pairs]
    assert unpack(backend.mont_mul(a, b, field)) == expected


@fields
@pytest.mark.parametrize("n", [0, 1, 40])
def test_unary_operations(
    backend: Backend, device: torch.device, field: PrimeField, n: int
) -> None:
    p = field.modulus
    x = sample(field, n, 3)
    a = pack(x, field, device)
    assert unpack(backend.neg(a, field)) == [-u % p for u in x]
    assert unpack(backend.mont_sqr(a, field)) == [u * u * field.r_inv % p for u in x]
    assert unpack(backend.scale(a, p - 3, field)) == [-3 * u % p for u in x]
    assert unpack(backend.to_mont(a, field)) == [field.to_mont(u) for u in x]
    assert unpack(backend.from_mont(a, field)) == [field.from_mont(u) for u in x]


@fields
def test_to_mont_reduces_any_limbs(
    backend: Backend, device: torch.device, field: PrimeField
) -> None:
    top = (1 << 32 * field.n_limbs) - 1
    values = [top, top - 1, field.modulus, field.modulus + 1, 2 * field.modulus]
    got = backend.to_mont(pack(values, field, device), field)
    assert unpack(got) == [field.to_mont(v) for v in values]


@fields
@pytest.mark.parametrize("n", [0, 1, 64, 65, 131, 9000])
def test_batch_inverse(backend: Backend, device: torch.device, field: PrimeField, n: int) -> None:
    """Zero gives zero, wherever it stands."""
    x = sample(field, n, 4)
    if n > 70:
        x[n // 2] = x[-1] = 0
    p, square = field.modulus, field.r**2
    expected = [pow(u, -1, p) * square % p if u else 0 for u in x]
    assert unpack(backend.batch_inverse(pack(x, field, device), field)) == expected


@fields
@settings(max_examples=50, deadline=None)
@given(data=st.data())
def test_products_of_any_values(field: PrimeField, data: st.DataObject) -> None:
    p = field.modulus
    values = st.integers(0, p - 1)
    x, y = data.draw(values), data.draw(values)
    a, b = pack([x], field, "cpu"), pack([y], field, "cpu")
    got = load_backend("torch").mont_mul(a, b, field)
    assert unpack(got) == [x * y * field.r_inv % p]


def test_shapes_are_kept(backend: Backend, device: torch.device) -> None:
    a = pack(sample(FR, 30, 5), FR, device).view(8, 2, 3, 5)
    flat = a.view(8, 30)
    assert torch.equal(backend.mont_mul(a, a, FR), backend.mont_mul(flat, flat, FR).view(a.shape))
    assert torch.equal(backend.batch_inverse(a, FR), backend.batch_inverse(flat, FR).view(a.shape))


@pytest.mark.parametrize(
    "bad",
    [
        torch.zeros(8, 4, dtype=torch.int64),
        torch.zeros(12, 4, dtype=torch.int32),
        torch.zeros(8, dtype=torch.int32),
        torch.zeros(8, 5, dtype=torch.int32),
    ],
    ids=["dtype", "limbs", "rank", "length"],
)
def test_wrong_operands_are_refused(backend: Backend, bad: torch.Tensor) -> None:
    with pytest.raises(LayoutError):
        backend.mont_mul(torch.zeros(8, 4, dtype=torch.int32), bad, FR)
