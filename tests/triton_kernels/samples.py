"""Sizes and elements the kernel tests share."""

from __future__ import annotations

import random
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any
from unittest.mock import patch

from torchzk.params.fields import FP, PrimeField
from torchzk.triton_kernels.tuning import DEFAULT_ARCH, NUMBERS, Number, shape_for
from torchzk.triton_kernels.variants import edges

BLOCK = shape_for("elementwise", 8, 90).block
# nothing, one, a block, and either side of it: a mask that slips shows here
SIZES = [0, 1, BLOCK - 1, BLOCK, BLOCK + 1]


def sample(field: PrimeField, n: int, seed: int) -> list[int]:
    """Edges first, then random elements, then shuffled so that edges meet other elements."""
    rng = random.Random(seed)
    values = (edges(field) + [rng.randrange(field.modulus) for _ in range(n)])[:n]
    rng.shuffle(values)
    return values


def tuned(values: Mapping[str, int]) -> AbstractContextManager[Any]:
    """Other numbers for the operations on points, at every size."""
    key_and_number = {
        (name, FP.n_limbs, DEFAULT_ARCH): Number(((0, value),), "a test's")
        for name, value in values.items()
    }
    return patch.dict(NUMBERS, key_and_number)
