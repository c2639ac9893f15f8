"""The transposed products A^T y, B^T y, C^T y: what the setup needs of a constraint system.

With y the Lagrange basis at tau they are u_i(tau), v_i(tau), w_i(tau) of spec/groth16.md section 4.
"""

from __future__ import annotations

import torch

from torchzk.backends import Backend
from torchzk.errors import LayoutError
from torchzk.groth16.products import block_matrices
from torchzk.groth16.r1cs import R1cs
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
    device = y.device
    y_head = y[:, : head.n_constraints].contiguous()
    y_body = y[:, head.n_constraints : r1cs.n_constraints]
    y_body = y_body.view(8, r1cs.copies, body.n_constraints).transpose(1, 2).contiguous()
    by_head = backend.spmv_transposed(block_matrices(head, device)[index], y_head)
    by_body = backend.spmv_transposed(block_matrices(body, device)[index], y_body)
    n, n_shared = head.input_columns, body.n_shared_aux
    inputs, aux = by_body[:, : body.input_columns], by_body[:, body.input_columns :]
    return torch.cat(
        (
            _merge(backend, by_head[:, :n], inputs[:, :n], inputs[:, n:]),
            _merge(backend, by_head[:, n:], aux[:, :n_shared], aux[:, n_shared:]),
        ),
        dim=1,
    )


def _merge(
    backend: Backend, head: torch.Tensor, shared: torch.Tensor, own: torch.Tensor
) -> torch.Tensor:
    """Shared variables, of which every block has a part, then each copy's own, in global order."""
    first = backend.add(head.contiguous(), _sum_copies(backend, shared), FR)
    return torch.cat((first, own.transpose(1, 2).flatten(1)), dim=1)


def _sum_copies(backend: Backend, x: torch.Tensor) -> torch.Tensor:
    """`[8, n, k]` to `[8, n]`, adding up in halves."""
    if x.shape[2] == 0:
        return x.new_zeros(x.shape[:2])
    while x.shape[2] > 1:
        half = x.shape[2] // 2
        left, right, rest = x[..., :half], x[..., half : 2 * half], x[..., 2 * half :]
        x = torch.cat((backend.add(left.contiguous(), right.contiguous(), FR), rest), dim=2)
    return x.squeeze(2).contiguous()
