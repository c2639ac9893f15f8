"""Bits packed into field elements. Source: spec/gadgets.md section 2."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from torchzk.backends import Backend
from torchzk.circuits.gadgets.boolean import Boolean, lc
from torchzk.circuits.recorder import ONE, ConstraintSystem, Variable, add_scaled
from torchzk.params.fields import FR, LIMB_BITS

CAPACITY = 254
"""Bits that surely fit in an element of Fr."""


def packed(bits: Sequence[Boolean]) -> dict[Variable, int]:
    """The linear form of sum 2^i bit_i."""
    total: dict[Variable, int] = {}
    for i, bit in enumerate(bits):
        add_scaled(total, lc(bit), 1 << i)
    return total


def pack_bits(cs: ConstraintSystem, bits: Sequence[Boolean]) -> Variable:
    """A new variable that holds the first 254 bits, least significant first."""
    out = cs.alloc()
    cs.enforce(packed(bits[:CAPACITY]), {ONE: 1}, {out: 1})
    return out


def pack_into_inputs(cs: ConstraintSystem, bits: Sequence[Boolean]) -> list[Variable]:
    """New public inputs of 254 bits each that hold the bits, least significant first."""
    inputs = []
    for start in range(0, len(bits), CAPACITY):
        inputs.append(cs.alloc_input())
        cs.enforce(packed(bits[start : start + CAPACITY]), {ONE: 1}, {inputs[-1]: 1})
    return inputs


def pack_bits_wires(backend: Backend, bits: torch.Tensor) -> torch.Tensor:
    """Bool `[n, *batch]`, n up to 254, to the packed number in Montgomery form, `[8, *batch]`."""
    words = bits.new_zeros(FR.n_limbs * LIMB_BITS, *bits.shape[1:], dtype=torch.int32)
    words[: bits.shape[0]] = bits
    limbs = words.view(FR.n_limbs, LIMB_BITS, *bits.shape[1:])
    packed_limbs = limbs[:, 0].clone()
    for i in range(1, LIMB_BITS):
        packed_limbs |= limbs[:, i] << i
    return backend.to_mont(packed_limbs, FR)
