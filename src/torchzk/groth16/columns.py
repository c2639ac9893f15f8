"""The transposed products A^T y, B^T y, C^T y: what the setup needs of a constraint system.

With y the Lagrange basis at tau they are u_i(tau), v_i(tau), w_i(tau) of spec/groth16.md section 4.
"""

from __future__ import annotations

import numpy as np
import torch

from torchzk.backends import Backend
from torchzk.errors import LayoutError
from torchzk.groth16.r1cs import Block, R1cs, SparseRows
from torchzk.ops.csr import Csr
from torchzk.ops.layout import pack_mont
from torchzk.params.fields import FR


def transposed_products(
    backend: Backend, r1cs: R1cs, y: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """For each of A, B, C the sum over rows j of y_j times row j.

    Args:
        backend: The operations to use.
        r1cs: The circuit; its appended input rows are included.
        y: int32 `[8, n]`, Montgomery form, at least `r1cs.n_rows` long.

    Returns:
        Three int32 `[8, n_inputs + n_aux]`, inputs first, in global order.
    """
    if y.shape[1] < r1cs.n_rows:
        raise LayoutError(f"{r1cs.n_rows} rows need as many weights, got {y.shape[1]}")
    a, b, c = (_columns(backend, r1cs, index, y) for index in range(3))
    inputs = slice(0, r1cs.n_inputs)
    appended = y[:, r1cs.n_constraints : r1cs.n_rows]
    a[:, inputs] = backend.add(a[:, inputs].contiguous(), appended.contiguous(), FR)
    return a, b, c


def _columns(backend: Backend, r1cs: R1cs, index: int, y: torch.Tensor) -> torch.Tensor:
    head, body = r1cs.prologue, r1cs.block
    y_head = y[:, : head.n_constraints].contiguous()
    y_body = y[:, head.n_constraints : r1cs.n_constraints]
    y_body = y_body.view(8, r1cs.copies, body.n_constraints).transpose(1, 2).contiguous()
    by_head = _block_columns(backend, head, head.matrices[index], y_head.unsqueeze(2))
    by_body = _block_columns(backend, body, body.matrices[index], y_body)

    def split(x: torch.Tensor, block: Block) -> tuple[torch.Tensor, ...]:
        sizes = [block.n_shared_inputs, block.n_inputs, block.n_shared_aux, block.n_aux]
        return x.split(sizes, dim=1)

    one, head_inputs, _, head_aux = split(by_head, head)
    shared_inputs, own_inputs, shared_aux, own_aux = split(by_body, body)

    def class_of(head_part: torch.Tensor, shared: torch.Tensor, own: torch.Tensor) -> torch.Tensor:
        first = backend.add(head_part, _sum_copies(backend, shared), FR)
        return torch.cat((first, own.transpose(1, 2).flatten(1)), dim=1)

    head_shared = torch.cat((one, head_inputs), dim=1).squeeze(2)
    inputs = class_of(head_shared, shared_inputs, own_inputs)
    aux = class_of(head_aux.squeeze(2), shared_aux, own_aux)
    return torch.cat((inputs, aux), dim=1)


def _block_columns(
    backend: Backend, block: Block, rows: SparseRows, y: torch.Tensor
) -> torch.Tensor:
    """Transposed product of one block with `[8, m, k]`: `[8, v, k]`."""
    order = np.argsort(rows.cols, kind="stable")
    row_of_term = np.repeat(np.arange(block.n_constraints), np.diff(rows.starts))
    starts = np.zeros(block.n_columns + 1, dtype=np.int64)
    np.cumsum(np.bincount(rows.cols, minlength=block.n_columns), out=starts[1:])
    device = y.device
    matrix = Csr(
        rows=torch.from_numpy(starts).to(device),
        cols=torch.from_numpy(row_of_term[order]).to(device),
        coefficients=torch.from_numpy(rows.coefficients[order].astype(np.int64)).to(device),
        table=pack_mont(block.table, FR, device),
        n_cols=block.n_constraints,
    )
    return backend.spmv(matrix, y)


def _sum_copies(backend: Backend, x: torch.Tensor) -> torch.Tensor:
    """`[8, n, k]` to `[8, n]`, adding up in halves."""
    if x.shape[2] == 0:
        return x.new_zeros(x.shape[:2])
    while x.shape[2] > 1:
        half = x.shape[2] // 2
        left, right, rest = x.split([half, half, x.shape[2] - 2 * half], dim=2)
        x = torch.cat((backend.add(left.contiguous(), right.contiguous(), FR), rest), dim=2)
    return x.squeeze(2).contiguous()
