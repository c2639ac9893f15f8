"""Batch inversion against integers: powers alone, lanes of several elements, levels, zeros.

A power is long, and the interpreter slow: most cases here use a field of two limbs, for which the
same kernels serve.
"""

from __future__ import annotations

import pytest
import torch

from torchzk.ops.layout import pack_mont, unpack_mont
from torchzk.params.fields import FIELDS, FP, PrimeField
from torchzk.triton_kernels import field as kernels
from torchzk.triton_kernels import fp2, inverse
from torchzk.triton_kernels.tuning import SHAPES, Shape
from triton_kernels.samples import sample

SMALL = PrimeField("mersenne61", (1 << 61) - 1, 37)
only_ptx = pytest.mark.parametrize("variant", ["ptx"], indirect=True)


@pytest.fixture(autouse=True)
def shapes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SHAPES, ("fermat", 2, 90), Shape(4, 1, "test"))
    monkeypatch.setitem(SHAPES, ("inverse", 2, 90), Shape(8, 1, "test"))


@pytest.fixture
def levels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few elements take as many levels as many do."""
    monkeypatch.setattr(inverse, "TOP", 4)
    monkeypatch.setattr(inverse, "STEPS", 3)


def inverses(values: list[int], field: PrimeField) -> list[int]:
    return [pow(v, -1, field.modulus) if v else 0 for v in values]


def check(field: PrimeField, values: list[int], device: torch.device) -> None:
    a = pack_mont(values, field, device)
    assert unpack_mont(kernels.batch_inverse(a, field), field) == inverses(values, field)
    assert unpack_mont(a, field) == values


@pytest.mark.usefixtures("variant")
@pytest.mark.parametrize("n", [0, 1, 3, 4, 5, 40])
def test_powers(device: torch.device, n: int) -> None:
    check(SMALL, sample(SMALL, n, n), device)


@pytest.mark.usefixtures("variant", "levels")
@pytest.mark.parametrize("n", [5, 12, 13, 24, 25, 100])
def test_lanes_share_inversions(device: torch.device, n: int) -> None:
    check(SMALL, sample(SMALL, n, n), device)


@pytest.mark.usefixtures("variant", "levels")
def test_zeros_among_and_alone(device: torch.device) -> None:
    check(SMALL, [0] * 11, device)
    check(SMALL, [3, 0, 0, 0, 1, 5, 0, 7, 8, 0], device)


@pytest.mark.usefixtures("variant", "levels")
def test_a_slice_is_inverted_as_it_lies(device: torch.device) -> None:
    values = sample(SMALL, 40, 3)
    view = pack_mont(values, SMALL, device)[:, 6:27]
    got = kernels.batch_inverse(view, SMALL)
    assert unpack_mont(got, SMALL) == inverses(values[6:27], SMALL)


@only_ptx
@pytest.mark.usefixtures("variant", "levels")
@pytest.mark.parametrize("field", FIELDS.values(), ids=FIELDS)
def test_fields_of_the_curve(device: torch.device, field: PrimeField) -> None:
    check(field, sample(field, 11, 1), device)


@only_ptx
@pytest.mark.usefixtures("variant")
def test_fp2(device: torch.device) -> None:
    p = FP.modulus
    x = list(zip([0, 1, 0, *sample(FP, 9, 4)], [0, 0, 1, *sample(FP, 9, 5)], strict=True))
    a = torch.stack([pack_mont([v[c] for v in x], FP, device) for c in (0, 1)])
    got = fp2.fp2_batch_inverse(a, FP)
    for (x0, x1), y0, y1 in zip(x, unpack_mont(got[0], FP), unpack_mont(got[1], FP), strict=True):
        product = ((x0 * y0 - x1 * y1) % p, (x0 * y1 + x1 * y0) % p)
        assert product == ((1, 0) if x0 or x1 else (0, 0))
        assert x0 or x1 or (y0, y1) == (0, 0)
    assert fp2.fp2_batch_inverse(a[:, :, :0], FP).shape == (2, 12, 0)
