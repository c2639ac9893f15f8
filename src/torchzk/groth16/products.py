"""A z, B z and C z over the replicated block, and the check that they satisfy the system."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import torch

from torchzk.backends import Backend
from torchzk.groth16.r1cs import Array, Assignment, Block, R1cs, SparseRows
from torchzk.ops.csr import Csr
from torchzk.ops.layout import pack_mont
from torchzk.params.fields import FR

# rows of one batch of copies, to bound what is gathered at once
_ROWS_AT_ONCE = 1 << 22
_CHECKED_AT_ONCE = 1 << 20


def products(
    backend: Backend, r1cs: R1cs, assignment: Assignment
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The vectors a = A z, b = B z, c = C z over the evaluation domain.

    Args:
        backend: The operations to use.
        r1cs: The circuit.
        assignment: Values of all variables, on the device to work on.

    Returns:
        Three int32 `[8, domain.size]` in Montgomery form: rows in global order, then the input
        rows (a = the input, b = c = 0), then zeros. spec/groth16.md section 3.

    Raises:
        LayoutError: The assignment is of another circuit.
    """
    assignment.check(r1cs)
    device = assignment.aux.device
    n_head, n_body = r1cs.prologue.n_constraints, r1cs.block.n_constraints
    outs = [torch.zeros(8, r1cs.domain.size, dtype=torch.int32, device=device) for _ in range(3)]
    head, body = block_matrices(r1cs.prologue, device), block_matrices(r1cs.block, device)
    shared = _shared(r1cs, assignment)
    z = torch.cat(shared, dim=1).unsqueeze(2)
    if n_head:
        for out, matrix in zip(outs, head, strict=True):
            out[:, :n_head] = backend.spmv(matrix, z).squeeze(2)
    step = max(1, _ROWS_AT_ONCE // max(1, n_body))
    for first in range(0, r1cs.copies, step):
        last = min(first + step, r1cs.copies)
        z = _variables(r1cs, assignment, shared, first, last)
        rows = slice(n_head + first * n_body, n_head + last * n_body)
        for out, matrix in zip(outs, body, strict=True):
            by_row = out[:, rows].view(8, last - first, n_body)
            by_row.copy_(backend.spmv(matrix, z).transpose(1, 2))
    outs[0][:, r1cs.n_constraints : r1cs.n_rows] = assignment.inputs
    a, b, c = outs
    return a, b, c


def unsatisfied_row(
    backend: Backend, a: torch.Tensor, b: torch.Tensor, c: torch.Tensor
) -> int | None:
    """The first row in which a * b is not c, if any. All int32 `[8, n]` in Montgomery form."""
    for start in range(0, a.shape[1], _CHECKED_AT_ONCE):
        piece = slice(start, start + _CHECKED_AT_ONCE)
        product = backend.mont_mul(a[:, piece], b[:, piece], FR)
        wrong = (product != c[:, piece]).any(dim=0)
        if wrong.any():
            return start + int(wrong.nonzero()[0])
    return None


def _shared(r1cs: R1cs, assignment: Assignment) -> tuple[torch.Tensor, torch.Tensor]:
    """Inputs and aux of ONE and the prologue."""
    n_inputs, n_aux = r1cs.prologue.input_columns, r1cs.prologue.n_aux
    return assignment.inputs[:, :n_inputs], assignment.aux[:, :n_aux]


def _variables(
    r1cs: R1cs,
    assignment: Assignment,
    shared: tuple[torch.Tensor, torch.Tensor],
    first: int,
    last: int,
) -> torch.Tensor:
    """The variable vectors of copies `first` to `last`: `[8, v, copies]`."""
    copies = last - first
    parts = []
    sizes = (r1cs.block.n_inputs, r1cs.block.n_aux)
    values = (assignment.inputs, assignment.aux)
    for head, n, x in zip(shared, sizes, values, strict=True):
        start = head.shape[1]
        own = x[:, start + first * n : start + last * n].view(8, copies, n)
        parts += [head.unsqueeze(2).expand(-1, -1, copies), own.transpose(1, 2)]
    return torch.cat(parts, dim=1)


@lru_cache(maxsize=8)
def block_matrices(block: Block, device: torch.device) -> tuple[Csr, ...]:
    """A, B and C of a block, on a device."""
    table = pack_mont(block.table, FR, device)
    return tuple(_to_device(rows, table, block.n_columns) for rows in block.matrices)


def _to_device(rows: SparseRows, table: torch.Tensor, n_columns: int) -> Csr:
    def index(x: Array) -> torch.Tensor:
        return torch.from_numpy(x.astype(np.int64)).to(table.device)

    return Csr(index(rows.starts), index(rows.cols), index(rows.coefficients), table, n_columns)
