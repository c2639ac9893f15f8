"""A z, B z and C z over the replicated block, and the check that they satisfy the system."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import torch

from torchzk.backends import Backend
from torchzk.groth16.r1cs import Array, Assignment, Block, R1cs, SparseRows
from torchzk.ops.csr import Copies, Csr
from torchzk.ops.layout import pack_mont
from torchzk.params.fields import FR

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
    outs = [torch.empty(8, r1cs.domain.size, dtype=torch.int32, device=device) for _ in range(3)]
    start = 0
    for block, copies in parts(r1cs, device):
        rows = slice(start, start + (copies.last - copies.first) * block.n_constraints)
        for out, matrix in zip(outs, block_matrices(block, device), strict=True):
            backend.spmv_copies(matrix, copies, assignment.inputs, assignment.aux, out[:, rows])
        start = rows.stop
    for out in outs:
        out[:, r1cs.n_constraints :] = 0
    outs[0][:, r1cs.n_constraints : r1cs.n_rows] = assignment.inputs
    a, b, c = outs
    return a, b, c


def parts(r1cs: R1cs, device: torch.device) -> list[tuple[Block, Copies]]:
    """The prologue, one copy of it, and all copies of the block: rows follow in this order."""
    no_imports = np.zeros((1, 0), dtype=np.int64)
    blocks = ((r1cs.prologue, no_imports), (r1cs.block, r1cs.imports))
    return [(block, _copies(block, imports, device)) for block, imports in blocks]


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
    n = a.shape[1]
    # one number a piece, looked at in the end, so that a device need not wait for the host
    first = torch.full((), n, dtype=torch.int64, device=a.device)
    for start in range(0, n, _CHECKED_AT_ONCE):
        piece = slice(start, start + _CHECKED_AT_ONCE)
        product = backend.mont_mul(a[:, piece], b[:, piece], FR)
        wrong = (product != c[:, piece]).any(dim=0)
        found = torch.where(wrong.any(), start + wrong.to(torch.uint8).argmax(), n)
        first = torch.minimum(first, found)
    row = int(first)
    return row if row < n else None


@lru_cache(maxsize=8)
def block_matrices(block: Block, device: torch.device) -> tuple[Csr, ...]:
    """A, B and C of a block, on a device."""
    table = pack_mont(block.table, FR, device)
    return tuple(_to_device(rows, table, block.n_columns) for rows in block.matrices)


def _to_device(rows: SparseRows, table: torch.Tensor, n_columns: int) -> Csr:
    def index(x: Array) -> torch.Tensor:
        return torch.from_numpy(x.astype(np.int64)).to(table.device)

    return Csr(index(rows.starts), index(rows.cols), index(rows.coefficients), table, n_columns)
