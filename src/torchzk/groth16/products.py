"""A z, B z and C z over the replicated block, and the check that they satisfy the system."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from torchzk.backends import Backend
from torchzk.device_cache import kept_by_device
from torchzk.groth16.r1cs import Array, Assignment, Block, R1cs, SparseRows
from torchzk.groth16.streams import Mark, used_here
from torchzk.ops.csr import Copies, Csr
from torchzk.ops.layout import pack_mont
from torchzk.params.fields import FR

MATRICES = ("a", "b", "c")

ROWS_AT_ONCE = 1 << 22
"""Rows that are multiplied at once where they are only checked; a copy of the block at least."""


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
    a, b, c = (product(backend, r1cs, assignment, which) for which in range(len(MATRICES)))
    return a, b, c


def product(backend: Backend, r1cs: R1cs, assignment: Assignment, which: int) -> torch.Tensor:
    """One of the vectors of `products`, by its place in `MATRICES`."""
    assignment.check(r1cs)
    device = assignment.aux.device
    out = torch.empty(FR.n_limbs, r1cs.domain.size, dtype=torch.int32, device=device)
    start = 0
    for block, copies in parts(r1cs, device):
        rows = slice(start, start + (copies.last - copies.first) * block.n_constraints)
        matrix = _matrices(block, device)[which]
        backend.spmv_copies(matrix, copies, assignment.inputs, assignment.aux, out[:, rows])
        start = rows.stop
    out[:, r1cs.n_constraints :] = 0
    if which == 0:
        out[:, r1cs.n_constraints : r1cs.n_rows] = assignment.inputs
    return out


@kept_by_device(8)
def parts(r1cs: R1cs, device: torch.device) -> tuple[tuple[Block, Copies], ...]:
    """The prologue, one copy of it, and all copies of the block: rows follow in this order."""
    no_imports = np.zeros((1, 0), dtype=np.int64)
    blocks = ((r1cs.prologue, no_imports), (r1cs.block, r1cs.imports))
    found = tuple((block, _copies(block, imports, device)) for block, imports in blocks)
    # any stream may use them from now on
    Mark.here(device).wait()
    return found


def _copies(block: Block, imports: Array, device: torch.device) -> Copies:
    return Copies(
        n_shared_inputs=block.n_shared_inputs,
        n_inputs=block.n_inputs,
        n_shared_aux=block.n_shared_aux,
        n_aux=block.n_aux,
        imports=torch.from_numpy(imports).to(device),
        first=0,
        last=imports.shape[0],
    )


def unsatisfied_row(
    backend: Backend, a: torch.Tensor, b: torch.Tensor, c: torch.Tensor
) -> int | None:
    """The first row in which a * b is not c, if any. All int32 `[8, n]` in Montgomery form."""
    row = int(backend.first_unsatisfied(a, b, c))
    return row if row < a.shape[1] else None


def unsatisfied_in_turn(backend: Backend, r1cs: R1cs, assignment: Assignment) -> int | None:
    """As `unsatisfied_row`, with no more than a few copies of the block multiplied at a time.

    The appended input rows hold whatever the inputs are. Raises `LayoutError` as `products`.
    """
    assignment.check(r1cs)
    device, n = assignment.aux.device, r1cs.n_constraints
    # looked at in the end, so that a device need not wait for the host
    first = torch.full((), n, dtype=torch.int64, device=device)
    start = 0
    for block, copies in parts(r1cs, device):
        step = max(1, ROWS_AT_ONCE // max(1, block.n_constraints))
        for k in range(copies.first, copies.last, step):
            some = replace(copies, first=k, last=min(k + step, copies.last))
            rows = (some.last - some.first) * block.n_constraints
            abc = torch.empty(len(MATRICES), FR.n_limbs, rows, dtype=torch.int32, device=device)
            for out, matrix in zip(abc, _matrices(block, device), strict=True):
                backend.spmv_copies(matrix, some, assignment.inputs, assignment.aux, out)
            found = backend.first_unsatisfied(*abc)
            # before the next three are made
            del abc, out
            first = torch.minimum(first, torch.where(found < rows, found + start, n))
            start += rows
    row = int(first)
    return row if row < n else None


@kept_by_device(8)
def block_matrices(block: Block, device: torch.device) -> tuple[Csr, ...]:
    """A, B and C of a block, on a device."""
    table = pack_mont(block.table, FR, device)
    return tuple(_to_device(rows, table, block.n_columns) for rows in block.matrices)


def _matrices(block: Block, device: torch.device) -> tuple[Csr, ...]:
    """The same for the current stream, which may be another than the one they were made on."""
    found = block_matrices(block, device)
    for csr in found:
        used_here(csr.rows, csr.cols, csr.coefficients, csr.table)
    return found


def forget_matrices(device: torch.device) -> None:
    """Give back all matrices that lie on a device; each goes once nobody works with it."""
    block_matrices.forget(device)
    parts.forget(device)


def _to_device(rows: SparseRows, table: torch.Tensor, n_columns: int) -> Csr:
    def index(x: Array) -> torch.Tensor:
        return torch.from_numpy(x.astype(np.int64)).to(table.device)

    return Csr(index(rows.starts), index(rows.cols), index(rows.coefficients), table, n_columns)
