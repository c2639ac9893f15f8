"""Passes over values by kernels, in both variants, at sizes on either side of a block."""

from __future__ import annotations

import pytest
import torch

from torchzk.ops import values as reference
from torchzk.ops.layout import pack
from torchzk.params.fields import FR
from torchzk.triton_kernels import values as kernels
from torchzk.triton_kernels.field import mont_mul
from torchzk.triton_kernels.tuning import shape_for
from triton_kernels.samples import sample

BLOCK = shape_for("values", FR.n_limbs, 90).block
pytestmark = pytest.mark.usefixtures("variant")
sizes = pytest.mark.parametrize("n", [0, 1, BLOCK, BLOCK + 1, 3 * BLOCK - 1])


@sizes
def test_classes_and_canonical_values(device: torch.device, n: int) -> None:
    x = pack([FR.to_mont(v) for v in sample(FR, n, 1)], FR, device)
    x[:, : n // 3] = pack([FR.to_mont(1)], FR, device)
    assert torch.equal(kernels.classes(x), reference.classes(x))
    assert torch.equal(kernels.classes(x[:, ::2]), reference.classes(x[:, ::2]))
    index = torch.arange(n, dtype=torch.int32, device=device).flip(0)
    got, want = (torch.full((8, n + 7), -1, dtype=torch.int32, device=device) for _ in range(2))
    for module, out in ((kernels, got), (reference, want)):
        module.from_mont_at(x, index, out[:, 3 : n + 3])
    assert torch.equal(got, want)
    for module, out in ((kernels, got), (reference, want)):
        module.from_mont_at(out[:, 3 : n + 3], None, out[:, 3 : n + 3])
    assert torch.equal(got, want)


@sizes
def test_the_first_row_that_does_not_hold(device: torch.device, n: int) -> None:
    a, b = (pack(sample(FR, n, seed), FR, device) for seed in (2, 3))
    c = mont_mul(a, b, FR)
    assert int(kernels.first_unsatisfied(a, b, c)) == n
    for row in sorted({n - 1, n // 2, 0} & set(range(n)), reverse=True):
        c[row % 8, row] ^= 1 << 31 - 8 * (row % 4)
        assert int(kernels.first_unsatisfied(a, b, c)) == row
