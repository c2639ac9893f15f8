"""One small circuit twice: as a prologue and a repeated block, and recorded in one go."""

from __future__ import annotations

import random

import numpy as np

from plain_r1cs import alone
from torchzk.circuits.recorder import ONE, ConstraintSystem, Variable
from torchzk.groth16.r1cs import R1cs
from torchzk.params.fields import FR

COPIES = 5
N_SQUARES = 4
# which squares each copy imports, not in their order; copies import the same ones
_IMPORTED = ((0, 1), (2, 1), (3, 0), (1, 3), (2, 0))


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


def _squares(cs: ConstraintSystem) -> tuple[list[Variable], Variable]:
    """Squares p_j of r_j, all the p_j first, and q, the sum of the squares."""
    squares = cs.alloc_many(N_SQUARES)
    for p in squares:
        r = cs.alloc()
        cs.enforce({r: 1}, {r: 1}, {p: 1})
    q = cs.alloc()
    cs.enforce(dict.fromkeys(squares, 1), {ONE: 1}, {q: 1})
    return squares, q


def _importing(cs: ConstraintSystem, first: Variable, second: Variable, q: Variable) -> None:
    """u = (7 first + 11 q + 13 second)(first - second), and v = u * second as an input."""
    u = cs.alloc()
    cs.enforce({first: 7, q: 11, second: 13}, {first: 1, second: -1}, {u: 1})
    v = cs.alloc_input()
    cs.enforce({u: 1}, {second: 1}, {v: 1})


def replicated_imports(copies: int = COPIES) -> R1cs:
    """A block whose copies import different variables of the prologue.

    q stands before the imports in the block's vector, but behind them in the whole system, where
    the columns of a row therefore ascend in another order, and not in the same in every copy.
    """
    head = ConstraintSystem()
    squares, q = _squares(head)
    body = ConstraintSystem(head.n_inputs, head.n_aux, 2)
    _importing(body, head.n_aux, head.n_aux + 1, q)
    imported = [[squares[j] for j in pair] for pair in _IMPORTED[:copies]]
    imports = np.array(imported, dtype=np.int64).reshape(copies, 2)
    return R1cs(head.block(), body.block(), copies, imports)


def flat_imports(copies: int = COPIES) -> R1cs:
    """The same constraints, recorded one after another."""
    cs = ConstraintSystem()
    squares, q = _squares(cs)
    for first, second in _IMPORTED[:copies]:
        _importing(cs, squares[first], squares[second], q)
    return alone(cs)


def values_imports(seed: int, copies: int = COPIES) -> tuple[list[int], list[int]]:
    """Inputs and aux that satisfy it."""
    draw = random.Random(seed)
    roots = [draw.randrange(FR.modulus) for _ in range(N_SQUARES)]
    squares = [r * r % FR.modulus for r in roots]
    q = sum(squares) % FR.modulus
    inputs, aux = [1], [*squares, *roots, q]
    for i, j in _IMPORTED[:copies]:
        first, second = squares[i], squares[j]
        u = (7 * first + 11 * q + 13 * second) * (first - second) % FR.modulus
        inputs.append(u * second % FR.modulus)
        aux.append(u)
    return inputs, aux


CIRCUITS = {
    "shared": (replicated, flat, values),
    "imports": (replicated_imports, flat_imports, values_imports),
}
"""By name: the system replicated, the same flat, and values that satisfy it."""
