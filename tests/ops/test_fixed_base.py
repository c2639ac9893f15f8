"""Multiples of one point against integers and a library."""

from __future__ import annotations

import pytest
import torch

from curve_samples import OUTSIDE_G1, R, library_multiple, scalars
from torchzk.backends import Backend
from torchzk.errors import LayoutError
from torchzk.ops.layout import pack, rows_to_points
from torchzk.params import integers
from torchzk.params.curves import CURVES, G1, Curve
from torchzk.params.fields import FR

both = pytest.mark.parametrize("curve", CURVES.values(), ids=CURVES.keys())


@both
@pytest.mark.parametrize("n", [0, 1, 2, 40])
def test_small_batches(backend: Backend, device: torch.device, curve: Curve, n: int) -> None:
    base = integers.mul(curve, 0xABCDEF, curve.generator)
    factors = scalars(n, seed=n)
    got = backend.fixed_base(pack(factors, FR, device), base, curve)
    assert got.shape == (n, *curve.row_shape) and got.dtype == torch.int32
    assert rows_to_points(got, curve) == [integers.mul(curve, f, base) for f in factors]


@both
def test_a_batch_of_several_pieces(backend: Backend, device: torch.device, curve: Curve) -> None:
    n = 8192 + 5
    factors = scalars(n, seed=3)
    rows = backend.fixed_base(pack(factors, FR, device), curve.generator, curve)
    got = rows_to_points(rows, curve)
    for i in [*range(12), 4000, *range(8188, n)]:
        assert got[i] == library_multiple(curve, factors[i])
    # and all of them at once
    weights = range(1, n + 1)
    dot = sum(w * f for w, f in zip(weights, factors, strict=True)) % R
    assert backend.msm(pack(list(weights), FR, device), rows, curve) == library_multiple(curve, dot)


@both
def test_every_multiple_of_infinity_is_infinity(
    backend: Backend, device: torch.device, curve: Curve
) -> None:
    got = backend.fixed_base(pack(scalars(12, seed=4), FR, device), None, curve)
    assert not got.any()


def test_a_base_outside_the_subgroup(backend: Backend, device: torch.device) -> None:
    """Of order 3: the table is full of infinite, equal and opposite points."""
    factors = scalars(30, seed=5)
    got = backend.fixed_base(pack(factors, FR, device), OUTSIDE_G1, G1)
    assert rows_to_points(got, G1) == [integers.mul(G1, f, OUTSIDE_G1) for f in factors]


def test_wrong_scalars_are_refused(backend: Backend, device: torch.device) -> None:
    good = pack([1, 2, 3, 4], FR, device)
    for bad in (good[:7], good.long(), good.view(8, 2, 2)):
        with pytest.raises(LayoutError):
            backend.fixed_base(bad, G1.generator, G1)
