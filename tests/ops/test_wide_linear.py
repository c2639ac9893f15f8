"""Exact linear maps at the limits of what they promise."""

from __future__ import annotations

import pytest
import torch

from torchzk.ops import wide
from torchzk.ops.layout import pack, unpack
from torchzk.params.fields import FIELDS, PrimeField

# the largest word of a normal element
LARGEST = float((1 << 23) + (1 << 7))


def value(words: torch.Tensor) -> int:
    return sum(int(w) << 24 * i for i, w in enumerate(words.tolist()))


@pytest.mark.parametrize("field", FIELDS.values(), ids=FIELDS)
def test_largest_words(device: torch.device, field: PrimeField) -> None:
    """Every lane as large as it may be, of one sign and of alternating ones."""
    p, w = field.modulus, wide.n_words(field)
    lanes, rows = 121 // w, 3
    fixed = [p // 2 - i if i % 2 else p // 2 + 1 + i for i in range(rows * lanes)]
    columns = wide.linear_columns(wide.from_limbs(pack(fixed, field, device), field), field)
    columns = columns.view(w + 1, w, rows, lanes).transpose(1, 2)
    a = torch.full((w, lanes, 4), LARGEST, dtype=torch.float64, device=device)
    # the highest word of a normal element is bounded by its value
    a[-1] = (p >> 24 * (w - 1)) // 2
    a[:, :, 1].neg_()
    a[::2, :, 2].neg_()
    a[:, ::2, 3].neg_()

    got = wide.linear(columns, a, field)

    assert got[:-1].abs().max() <= LARGEST
    for i in range(rows):
        row = fixed[i * lanes : (i + 1) * lanes]
        for j in range(4):
            total = sum(k * value(a[:, lane, j]) for lane, k in enumerate(row))
            assert value(got[:, i, j]) % p == total % p
            assert abs(value(got[:, i, j])) <= 0.6 * p
    assert unpack(wide.to_limbs(got[:, 0], field))[0] < p
