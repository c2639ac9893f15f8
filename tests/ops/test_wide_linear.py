"""Exact linear maps at the limits of what they promise."""

from __future__ import annotations

import pytest
import torch

from torchzk.ops import wide
from torchzk.ops.layout import pack, unpack
from torchzk.params.fields import FIELDS, PrimeField

# the largest odd word of a normal element; a bit lost would show
LARGEST = float((1 << 23) + (1 << 7) - 1)


def value(words: torch.Tensor) -> int:
    return sum(int(w) << 24 * i for i, w in enumerate(words.tolist()))


@pytest.mark.parametrize("field", FIELDS.values(), ids=FIELDS)
def test_largest_words(device: torch.device, field: PrimeField) -> None:
    """Every word of both operands as large as it may be, of one sign and of others."""
    p, w = field.modulus, wide.n_words(field)
    lanes = 121 // w
    a = torch.full((w, lanes, 4), LARGEST, dtype=torch.float64, device=device)
    # the highest word of a normal element is bounded by its value
    a[-1] = (p >> 24 * (w - 1)) // 2
    a[:, :, 1].neg_()
    a[::2, :, 2].neg_()
    a[:, ::2, 3].neg_()
    fixed = a[:, :1, 0].expand(w, w)
    over_p = torch.full((1, w), value(fixed[:, 0]) / p, dtype=torch.float64, device=device)
    columns = torch.cat((fixed, over_p)).view(w + 1, 1, w, 1).expand(-1, -1, -1, lanes)

    got = wide.linear(columns, a, field)

    assert got.abs().max() <= LARGEST + 1
    for j in range(4):
        # all columns are alike, so each word counts as a value does
        total = value(fixed[:, 0]) * int(a[:, :, j].sum())
        assert value(got[:, 0, j]) % p == total % p
        assert abs(value(got[:, 0, j])) <= 0.6 * p


@pytest.mark.parametrize("field", FIELDS.values(), ids=FIELDS)
def test_a_matrix_by_vectors(device: torch.device, field: PrimeField) -> None:
    p, w = field.modulus, wide.n_words(field)
    m, lanes, n = 3, 5, 2
    matrix = [[pow(3, 40 * i + 7 * j, p) for j in range(lanes)] for i in range(m)]
    vectors = [[p - 1 - pow(5, 30 * i + j, p) for j in range(n)] for i in range(lanes)]
    fixed = wide.from_limbs(pack([k for row in matrix for k in row], field, device), field)
    columns = wide.linear_columns(fixed, field).view(w + 1, w, m, lanes).transpose(1, 2)
    varied = wide.from_limbs(pack([k for row in vectors for k in row], field, device), field)

    got = wide.linear(columns, varied.view(w, lanes, n), field)

    expected = [
        sum(k * x for k, x in zip(row, column, strict=True)) % p
        for row in matrix
        for column in zip(*vectors, strict=True)
    ]
    assert unpack(wide.to_limbs(got.flatten(1), field)) == expected
