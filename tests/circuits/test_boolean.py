"""Boolean gadgets against truth tables: one solution for the new variables, the right one."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import pytest

from plain_r1cs import is_satisfied
from torchzk.circuits.gadgets import boolean
from torchzk.circuits.gadgets.boolean import Bit, Boolean
from torchzk.circuits.recorder import ConstraintSystem

KINDS = ("false", "true", "is", "not")


def _value(bit: Boolean, aux: tuple[int, ...]) -> int:
    return int(bit) if isinstance(bit, bool) else aux[bit.variable] ^ bit.negated


@pytest.mark.parametrize(
    ("gadget", "truth", "n"),
    [
        (boolean.xor, lambda a, b: a ^ b, 2),
        (boolean.conjunction, lambda a, b: a & b, 2),
        (boolean.choice, lambda a, b, c: b if a else c, 3),
        (boolean.majority, lambda a, b, c: int(a + b + c >= 2), 3),
    ],
    ids=["xor", "and", "ch", "maj"],
)
def test_every_kind_of_operand(
    gadget: Callable[..., Boolean], truth: Callable[..., int], n: int
) -> None:
    for kinds in product(KINDS, repeat=n):
        cs = ConstraintSystem()
        variables = cs.alloc_many(n)
        operands: list[Boolean] = [
            kind == "true" if kind in ("true", "false") else Bit(v, kind == "not")
            for kind, v in zip(kinds, variables, strict=True)
        ]
        out = gadget(cs, *operands)
        block = cs.block()
        for given in product((0, 1), repeat=n):
            expected = truth(*(_value(operand, given) for operand in operands))
            new = product((0, 1), repeat=block.n_aux - n)
            solutions = [given + x for x in new if is_satisfied(block, (1, *given, *x))]
            assert len(solutions) == 1, (kinds, given)
            assert _value(out, solutions[0]) == expected, (kinds, given)


@pytest.mark.parametrize("value", [0, 1, 2, -1])
def test_an_allocated_bit_is_0_or_1(value: int) -> None:
    cs = ConstraintSystem()
    boolean.alloc_bit(cs)
    assert is_satisfied(cs.block(), (1, value)) == (value in (0, 1))
