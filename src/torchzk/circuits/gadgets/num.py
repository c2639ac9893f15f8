"""Field elements: bits of them, sums, equality, public inputs.

A number is a variable; allocating one costs no constraint. Source: spec/gadgets.md sections 2, 7.
"""

from __future__ import annotations

import torch

from torchzk.backends import Backend
from torchzk.circuits.gadgets.boolean import Boolean, alloc_bits
from torchzk.circuits.gadgets.multipack import packed
from torchzk.circuits.recorder import ONE, ConstraintSystem, Variable, linear
from torchzk.device_cache import kept_by_device
from torchzk.ops.layout import pack_mont
from torchzk.params.fields import FR, LIMB_BITS

N_BITS = FR.modulus.bit_length()


def inputize(cs: ConstraintSystem, v: Variable) -> Variable:
    """A new public input that equals v."""
    i = cs.alloc_input()
    cs.enforce({i: 1}, {ONE: 1}, {v: 1})
    return i


def mul(cs: ConstraintSystem, a: Variable, b: Variable) -> Variable:
    """A new variable a * b."""
    out = cs.alloc()
    cs.enforce({a: 1}, {b: 1}, {out: 1})
    return out


def enforce_equal(cs: ConstraintSystem, a: Variable, b: Variable) -> None:
    """a = b."""
    cs.enforce({a: 1}, {ONE: 1}, {b: 1})


def add(cs: ConstraintSystem, a: Variable, b: Variable) -> Variable:
    """A new variable a + b. PoRep's encoding of a node is this."""
    out = cs.alloc()
    cs.enforce(linear((a, 1), (b, 1)), {ONE: 1}, {out: 1})
    return out


def to_bits(cs: ConstraintSystem, v: Variable) -> list[Boolean]:
    """The 255 bits of v, least significant first; not range-checked against r."""
    bits = alloc_bits(cs, N_BITS)
    cs.enforce({}, {}, {**packed(bits), v: -1})
    return bits


def to_bits_wires(backend: Backend, values: torch.Tensor) -> torch.Tensor:
    """The bits of int32 `[8, *batch]` in Montgomery form, as in `to_bits`: bool `[255, *batch]`."""
    canonical = backend.from_mont(values, FR)
    bits = torch.stack([canonical >> i & 1 for i in range(LIMB_BITS)], dim=1)
    return bits.flatten(0, 1)[:N_BITS].bool()


def bits_of(values: torch.Tensor, n: int) -> torch.Tensor:
    """Non-negative int64 `[*batch]` to their low `n` bits, bool `[n, *batch]`."""
    return torch.stack([(values >> i & 1).bool() for i in range(n)])


def bit_wires(bits: torch.Tensor) -> torch.Tensor:
    """Bool `[n, *batch]` to the values of allocated bits, int32 `[8, n, *batch]`."""
    return torch.where(bits, one(bits.device).view(8, *[1] * bits.ndim), 0)


def integer_wires(backend: Backend, values: torch.Tensor) -> torch.Tensor:
    """Non-negative int64 `[*batch]` as numbers in Montgomery form, int32 `[8, *batch]`."""
    limbs = values.new_zeros(FR.n_limbs, *values.shape, dtype=torch.int32)
    # the conversion keeps the low 32 bits, which is what a limb is
    limbs[0], limbs[1] = values.to(torch.int32), (values >> LIMB_BITS).to(torch.int32)
    return backend.to_mont(limbs, FR)


@kept_by_device(1)
def one(device: torch.device) -> torch.Tensor:
    """ONE in Montgomery form, int32 `[8, 1]`."""
    return pack_mont([1], FR, device)
