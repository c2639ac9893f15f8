"""Bits packed into field elements. Source: spec/gadgets.md section 2."""

from __future__ import annotations

from collections.abc import Sequence

from torchzk.circuits.gadgets.boolean import Boolean, lc
from torchzk.circuits.recorder import ONE, ConstraintSystem, Variable, add_scaled

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
