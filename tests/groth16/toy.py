"""A small circuit with a prologue and copies, and its rows as plain integers."""

from __future__ import annotations

import torch

from torchzk.circuits.gadgets.num import inputize
from torchzk.circuits.recorder import ONE, ConstraintSystem
from torchzk.groth16.r1cs import Assignment, Block, R1cs
from torchzk.ops.layout import pack_mont
from torchzk.params.fields import FR

COPIES = 5
Row = dict[int, int]
"""Global variable (inputs, then aux) to coefficient."""


def toy_r1cs() -> R1cs:
    """x is public; for each copy y is private, x y is public and t = 2 x (3 y - 1) is private."""
    head = ConstraintSystem()
    x = head.alloc()
    inputize(head, x)
    body = ConstraintSystem(shared_inputs=2, shared_aux=1)
    y, t, out = body.alloc(), body.alloc(), body.alloc_input()
    body.enforce({x: 1}, {y: 1}, {out: 1})
    body.enforce({y: 3, ONE: -1}, {x: 2}, {t: 1})
    return R1cs(head.block(), body.block(), COPIES)


def toy_assignment(x: int, ys: list[int], device: torch.device) -> tuple[Assignment, list[int]]:
    """The satisfying assignment, and its public inputs without ONE."""
    r = FR.modulus
    public = [x, *(x * y % r for y in ys)]
    aux = [x, *(v for y in ys for v in (y, 2 * x * (3 * y - 1) % r))]
    return Assignment(pack_mont([1, *public], FR, device), pack_mont(aux, FR, device)), public


def global_rows(r1cs: R1cs) -> list[list[Row]]:
    """A, B and C, each a list of rows, the appended input rows included."""
    matrices: list[list[Row]] = []
    for index in range(3):
        rows = _rows(r1cs, r1cs.prologue, index, 0)
        for copy in range(r1cs.copies):
            rows += _rows(r1cs, r1cs.block, index, copy)
        rows += [{i: 1} if index == 0 else {} for i in range(r1cs.n_inputs)]
        matrices.append(rows)
    return matrices


def _rows(r1cs: R1cs, block: Block, index: int, copy: int) -> list[Row]:
    matrix = block.matrices[index]
    rows = []
    for start, stop in zip(matrix.starts[:-1], matrix.starts[1:], strict=True):
        row = {}
        for column, k in zip(matrix.cols[start:stop], matrix.coefficients[start:stop], strict=True):
            row[_variable(r1cs, block, int(column), copy)] = block.table[k]
        rows.append(row)
    return rows


def _variable(r1cs: R1cs, block: Block, column: int, copy: int) -> int:
    if column < block.input_columns:
        own = column >= block.n_shared_inputs
        return column + (copy * block.n_inputs if own else 0)
    aux = column - block.input_columns
    own = aux >= block.n_shared_aux
    return r1cs.n_inputs + aux + (copy * block.n_aux if own else 0)
