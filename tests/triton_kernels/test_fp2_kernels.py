"""Fp2 kernels against integers, in both variants: interpreted, or compiled on a GPU."""

from __future__ import annotations

import pytest
import torch

from torchzk.errors import LayoutError
from torchzk.ops.layout import pack, unpack
from torchzk.params.fields import FP
from torchzk.triton_kernels import fp2 as kernels
from triton_kernels.samples import BLOCK, SIZES, sample

pytestmark = pytest.mark.usefixtures("variant")
P, R_INV = FP.modulus, FP.r_inv
Element = tuple[int, int]


def elements(n: int, seed: int) -> list[Element]:
    return list(zip(sample(FP, n, seed), sample(FP, n, seed + 1), strict=True))


def tensor(values: list[Element], device: torch.device) -> torch.Tensor:
    return torch.stack([pack([v[c] for v in values], FP, device) for c in (0, 1)])


def values(x: torch.Tensor) -> list[Element]:
    return list(zip(unpack(x[0]), unpack(x[1]), strict=True))


def times(x: Element, y: Element) -> Element:
    return (x[0] * y[0] - x[1] * y[1]) * R_INV % P, (x[0] * y[1] + x[1] * y[0]) * R_INV % P


@pytest.mark.parametrize("n", SIZES)
def test_matches_integers(device: torch.device, n: int) -> None:
    x, y = elements(n, 1), elements(n, 3)
    a, b = tensor(x, device), tensor(y, device)
    xy = list(zip(x, y, strict=True))
    assert values(kernels.fp2_add(a, b, FP)) == [
        ((u[0] + v[0]) % P, (u[1] + v[1]) % P) for u, v in xy
    ]
    assert values(kernels.fp2_sub(a, b, FP)) == [
        ((u[0] - v[0]) % P, (u[1] - v[1]) % P) for u, v in xy
    ]
    assert values(kernels.fp2_neg(a, FP)) == [(-u[0] % P, -u[1] % P) for u in x]
    assert values(kernels.fp2_mul(a, b, FP)) == [times(u, v) for u, v in xy]
    assert values(kernels.fp2_sqr(a, FP)) == [times(u, u) for u in x]
    assert (values(a), values(b)) == (x, y)


def test_slices_are_taken_as_they_lie(device: torch.device) -> None:
    x = elements(2 * BLOCK, 5)
    view = tensor(x, device)[:, :, 3 : BLOCK + 4]
    got = kernels.fp2_mul(view, view, FP)
    assert values(got) == [times(u, u) for u in x[3 : BLOCK + 4]]


def test_faults_are_refused(device: torch.device) -> None:
    a = tensor(elements(2, 7), device)
    with pytest.raises(LayoutError, match="one shape"):
        kernels.fp2_add(a, a[:, :, :1], FP)
    with pytest.raises(LayoutError, match="one shape"):
        kernels.fp2_neg(a[0], FP)
    with pytest.raises(LayoutError, match=FP.name):
        kernels.fp2_neg(a[:, :8], FP)
