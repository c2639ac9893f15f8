"""Field kernels against integers, in both variants: interpreted, or compiled on a GPU."""

from __future__ import annotations

import pytest
import torch

from torchzk.errors import LayoutError
from torchzk.ops import field as reference
from torchzk.ops.layout import pack, unpack
from torchzk.params.fields import FIELDS, FP, FR, PrimeField
from torchzk.triton_kernels import field as kernels
from triton_kernels.lanes import INTERPRETED
from triton_kernels.samples import BLOCK, SIZES, sample

pytestmark = pytest.mark.usefixtures("variant")
fields = pytest.mark.parametrize("field", FIELDS.values(), ids=FIELDS)
sizes = pytest.mark.parametrize("n", SIZES)


@fields
@sizes
def test_binary_matches_integers(device: torch.device, field: PrimeField, n: int) -> None:
    p, r_inv = field.modulus, field.r_inv
    x, y = sample(field, n, 1), sample(field, n, 2)
    a, b = pack(x, field, device), pack(y, field, device)
    xy = list(zip(x, y, strict=True))
    for _ in range(1 if INTERPRETED else 2):
        assert unpack(kernels.add(a, b, field)) == [(u + v) % p for u, v in xy]
        assert unpack(kernels.sub(a, b, field)) == [(u - v) % p for u, v in xy]
        assert unpack(kernels.mont_mul(a, b, field)) == [u * v * r_inv % p for u, v in xy]
    assert (unpack(a), unpack(b)) == (x, y)


@fields
@sizes
def test_unary_matches_integers(device: torch.device, field: PrimeField, n: int) -> None:
    p, r_inv = field.modulus, field.r_inv
    x = sample(field, n, 3)
    a = pack(x, field, device)
    assert unpack(kernels.neg(a, field)) == [-u % p for u in x]
    assert unpack(kernels.mont_sqr(a, field)) == [u * u * r_inv % p for u in x]
    assert unpack(kernels.scale(a, -3, field)) == [-3 * u % p for u in x]
    assert unpack(kernels.to_mont(a, field)) == [field.to_mont(u) for u in x]
    assert unpack(kernels.from_mont(a, field)) == [field.from_mont(u) for u in x]
    assert unpack(a) == x


@fields
def test_to_mont_takes_any_words(device: torch.device, field: PrimeField) -> None:
    top = 1 << 32 * field.n_limbs
    x = [top - 1, field.modulus, top - field.modulus, top >> 1]
    assert unpack(kernels.to_mont(pack(x, field, device), field)) == [
        u * field.r % field.modulus for u in x
    ]


@fields
def test_edges_meet_edges(device: torch.device, field: PrimeField) -> None:
    from torchzk.triton_kernels.variants import edges

    p = field.modulus
    x = [u for u in edges(field) for _ in edges(field)]
    y = edges(field) * len(edges(field))
    a, b = pack(x, field, device), pack(y, field, device)
    xy = list(zip(x, y, strict=True))
    assert unpack(kernels.add(a, b, field)) == [(u + v) % p for u, v in xy]
    assert unpack(kernels.sub(a, b, field)) == [(u - v) % p for u, v in xy]
    assert unpack(kernels.mont_mul(a, b, field)) == [u * v * field.r_inv % p for u, v in xy]


@fields
def test_views_are_taken_as_they_lie(device: torch.device, field: PrimeField) -> None:
    x = sample(field, 3 * BLOCK, 4)
    whole = pack(x, field, device)
    middle = whole[:, 5 : BLOCK + 10]
    turned = whole.view(field.n_limbs, 3, BLOCK).transpose(1, 2)
    for view in (middle, whole[:, ::3], turned, whole[:, :1], whole[:, 7:7]):
        got = kernels.mont_mul(view, view, field)
        assert got.shape == view.shape and got.is_contiguous()
        assert torch.equal(got, reference.mont_mul(view, view, field))
        assert torch.equal(kernels.neg(view, field), reference.neg(view, field))
        assert torch.equal(kernels.scale(view, 5, field), reference.scale(view, 5, field))
    assert unpack(whole) == x


@fields
def test_two_batch_dimensions(device: torch.device, field: PrimeField) -> None:
    a = pack(sample(field, 12, 5), field, device).view(field.n_limbs, 3, 4)
    assert torch.equal(kernels.mont_sqr(a, field), reference.mont_sqr(a, field))
    empty = a[:, :0]
    assert kernels.mont_sqr(empty, field).shape == empty.shape


def test_layout_faults_are_refused(device: torch.device) -> None:
    a = pack([1, 2], FR, device)
    with pytest.raises(LayoutError, match=FP.name):
        kernels.neg(a, FP)
    with pytest.raises(LayoutError, match="differ"):
        kernels.add(a, a[:, :1], FR)
    with pytest.raises(LayoutError, match="int32"):
        kernels.mont_sqr(a.to(torch.int64), FR)
