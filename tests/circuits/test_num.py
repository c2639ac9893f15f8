"""Small numeric gadgets: what they accept and what they refuse."""

from __future__ import annotations

import pytest

from plain_r1cs import is_satisfied
from torchzk.circuits.gadgets import boolean, multipack, num, uint32
from torchzk.circuits.recorder import ConstraintSystem


@pytest.mark.parametrize(
    ("gadget", "value"),
    [(num.add, 12), (num.mul, 35)],
    ids=["add", "mul"],
)
def test_arithmetic(gadget: object, value: int) -> None:
    cs = ConstraintSystem()
    x, y = cs.alloc_many(2)
    assert callable(gadget)
    gadget(cs, x, y)
    block = cs.block()
    assert is_satisfied(block, [1, 7, 5, value])
    assert not is_satisfied(block, [1, 7, 5, value + 1])


def test_adding_a_number_to_itself_doubles_it() -> None:
    cs = ConstraintSystem()
    x = cs.alloc()
    num.add(cs, x, x)
    assert is_satisfied(cs.block(), [1, 7, 14])
    assert not is_satisfied(cs.block(), [1, 7, 7])


def test_inputize_and_equal() -> None:
    cs = ConstraintSystem()
    x, y = cs.alloc_many(2)
    num.inputize(cs, x)
    num.enforce_equal(cs, x, y)
    assert is_satisfied(cs.block(), [1, 3, 3, 3])
    assert not is_satisfied(cs.block(), [1, 4, 3, 3])
    assert not is_satisfied(cs.block(), [1, 3, 3, 4])


def test_pack_into_inputs_cuts_at_254_bits() -> None:
    cs = ConstraintSystem()
    bits = boolean.alloc_bits(cs, 255)
    multipack.pack_into_inputs(cs, bits)
    assert cs.n_inputs == 3
    ones = [1] * 255
    assert is_satisfied(cs.block(), [1, (1 << 254) - 1, 1, *ones])
    assert not is_satisfied(cs.block(), [1, (1 << 254) - 1, 0, *ones])


@pytest.mark.parametrize(
    ("operands", "n_bits"), [(2, 33), (3, 34), (4, 34), (5, 35), (8, 35), (9, 36)]
)
def test_add_many_allocates_the_bits_a_sum_may_have(operands: int, n_bits: int) -> None:
    cs = ConstraintSystem()
    equalities = uint32.MultiEq(cs)
    words = [
        boolean.alloc_bits(cs, 32),
        *(uint32.constant(0xFFFFFFFF) for _ in range(operands - 1)),
    ]
    before = cs.n_aux
    uint32.add_many(cs, equalities, words)
    equalities.flush()
    assert cs.n_aux - before == n_bits
    x = 0x89ABCDEF
    total = x + (operands - 1) * 0xFFFFFFFF
    z = [1, *(x >> i & 1 for i in range(32)), *(total >> i & 1 for i in range(n_bits))]
    assert is_satisfied(cs.block(), z)
    z[-2] ^= 1
    assert not is_satisfied(cs.block(), z)


def test_add_many_of_constants_is_a_constant() -> None:
    cs = ConstraintSystem()
    words = [uint32.constant(v) for v in (0xFFFFFFFF, 0x80000000, 3)]
    out = uint32.add_many(cs, uint32.MultiEq(cs), words)
    assert out == uint32.constant((0xFFFFFFFF + 0x80000000 + 3) & 0xFFFFFFFF)
    assert (cs.n_aux, cs.n_constraints) == (0, 0)
