"""One small circuit twice: as a prologue and a repeated block, and recorded in one go."""

from __future__ import annotations

import random

from plain_r1cs import alone
from torchzk.circuits.recorder import ONE, ConstraintSystem, Variable
from torchzk.groth16.r1cs import R1cs
from torchzk.params.fields import FR

COPIES = 5


def _shared(cs: ConstraintSystem) -> tuple[Variable, Variable, Variable]:
    """x and y = x^2 + 3, and x as an input."""
    x = cs.alloc()
    i = cs.alloc_input()
    cs.enforce({i: 1}, {ONE: 1}, {x: 1})
    y = cs.alloc()
    cs.enforce({x: 1}, {x: 1}, {y: 1, ONE: -3})
    return i, x, y


def _repeated(cs: ConstraintSystem, i: Variable, x: Variable, y: Variable) -> None:
    """u free, v = (2u + x)(y - 1) + 5i as an input, and w = v * u."""
    u = cs.alloc()
    out = cs.alloc_input()
    v = cs.alloc()
    cs.enforce({u: 2, x: 1}, {y: 1, ONE: -1}, {v: 1, i: -5})
    cs.enforce({out: 1}, {ONE: 1}, {v: 1})
    w = cs.alloc()
    cs.enforce({v: 1}, {u: 1}, {w: 1})


def replicated(copies: int = COPIES) -> R1cs:
    """A prologue with variables of its own, and a block that uses them."""
    head = ConstraintSystem()
    shared = _shared(head)
    body = ConstraintSystem(head.n_inputs, head.n_aux)
    _repeated(body, *shared)
    return R1cs(head.block(), body.block(), copies)


def flat(copies: int = COPIES) -> R1cs:
    """The same constraints, recorded one after another."""
    cs = ConstraintSystem()
    shared = _shared(cs)
    for _ in range(copies):
        _repeated(cs, *shared)
    return alone(cs)


def values(seed: int, copies: int = COPIES) -> tuple[list[int], list[int]]:
    """Inputs and aux that satisfy it."""
    draw = random.Random(seed)
    x = draw.randrange(FR.modulus)
    y = (x * x + 3) % FR.modulus
    inputs, aux = [1, x], [x, y]
    for _ in range(copies):
        u = draw.randrange(FR.modulus)
        v = ((2 * u + x) * (y - 1) + 5 * x) % FR.modulus
        inputs.append(v)
        aux += [u, v, v * u % FR.modulus]
    return inputs, aux
