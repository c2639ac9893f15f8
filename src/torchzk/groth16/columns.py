"""The transposed products A^T y, B^T y, C^T y: what the setup needs of a constraint system.

With y the Lagrange basis at tau they are u_i(tau), v_i(tau), w_i(tau) of spec/groth16.md section 4.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from torchzk.backends import Backend
from torchzk.errors import LayoutError
from torchzk.groth16.products import block_matrices
from torchzk.groth16.r1cs import Block, R1cs
from torchzk.ops.csr import Csr
from torchzk.params.fields import FR

_ROWS_AT_ONCE = 1 << 23
"""Rows of one batch of copies: what is made of a batch takes some 120 bytes a row."""


def columns(backend: Backend, r1cs: R1cs, index: int, y: torch.Tensor) -> torch.Tensor:
    """The sum over rows j of y_j times row j of A, B or C, by `index`; see `add_columns`.

    Returns:
        int32 `[8, n_inputs + n_aux]`.
    """
    total = y.new_zeros(FR.n_limbs, r1cs.n_inputs + r1cs.n_aux)
    add_columns(backend, r1cs, index, y, total)
    return total


def add_columns(
    backend: Backend,
    r1cs: R1cs,
    index: int,
    y: torch.Tensor,
    total: torch.Tensor,
    factor: int = 1,
) -> None:
    """Add the sum over rows j of `factor` y_j times row j of A, B or C to `total`, in place.

    Beside `y` and `total` it takes what a batch of copies takes; no host waits for a device but
    while the matrices are prepared.

    Args:
        backend: The operations to use.
        r1cs: The circuit; its appended input rows are included.
        index: 0, 1 or 2: A, B or C.
        y: int32 `[8, n]`, Montgomery form, at least `r1cs.n_rows` long.
        total: int32 `[8, n_inputs + n_aux]`, inputs first, in global order.
        factor: Canonical.

    Raises:
        LayoutError: `y` is too short.
    """
    if y.shape[1] < r1cs.n_rows:
        raise LayoutError(f"{r1cs.n_rows} rows need as many weights, got {y.shape[1]}")
    head, body = r1cs.prologue, r1cs.block

    def times(matrix: Csr, weights: torch.Tensor) -> torch.Tensor:
        product = backend.spmv_transposed(matrix, weights)
        return product if factor == 1 else backend.scale(product, factor, FR)

    inputs, aux = total[:, : r1cs.n_inputs], total[:, r1cs.n_inputs :]
    n = head.input_columns
    # a matrix of its own, with which the transposed one goes: a proof has no use for that
    first_matrix = replace(block_matrices(head, y.device)[index])
    by_head = times(first_matrix, y[:, : head.n_constraints].contiguous())
    del first_matrix
    _add(backend, inputs[:, :n], by_head[:, :n])
    _add(backend, aux[:, : head.n_aux], by_head[:, n:])
    if index == 0:
        appended = y[:, r1cs.n_constraints : r1cs.n_rows].contiguous()
        _add(backend, inputs, backend.scale(appended, factor, FR))
    matrix, shared = _narrow(body, index, y.device)
    sizes = [n, body.n_inputs, shared.shape[0], body.n_imports, body.n_aux]
    imports = torch.from_numpy(r1cs.imports).to(y.device)
    step = max(1, _ROWS_AT_ONCE // max(1, body.n_constraints))
    for start in range(0, r1cs.copies, step):
        copies = slice(start, min(start + step, r1cs.copies))
        k = copies.stop - copies.start
        first = head.n_constraints + copies.start * body.n_constraints
        rows = y[:, first : first + k * body.n_constraints]
        rows = rows.view(FR.n_limbs, k, body.n_constraints).transpose(1, 2)
        by_body = times(matrix, rows).split_with_sizes(sizes, dim=1)
        _add(backend, inputs[:, :n], _sum_copies(backend, by_body[0]))
        _grow(backend, aux, shared, _sum_copies(backend, by_body[2]))
        _grow_repeated(backend, aux, imports[copies].t().flatten(), by_body[3].flatten(1))
        for whole, n_before, part in ((inputs, n, by_body[1]), (aux, head.n_aux, by_body[4])):
            own = whole[:, n_before + start * part.shape[1] :]
            _add(backend, own[:, : k * part.shape[1]], part.transpose(1, 2).flatten(1))


def _narrow(block: Block, index: int, device: torch.device) -> tuple[Csr, torch.Tensor]:
    """A matrix of a block without the shared aux that it does not touch, and those it does.

    A prologue may have millions of variables, of which each copy would have a sum of its own.
    """
    matrix = block_matrices(block, device)[index]
    first, last = block.input_columns, block.import_columns.start
    cols = block.matrices[index].cols
    touched = np.unique(cols[(cols >= first) & (cols < last)])
    place = np.arange(block.n_columns)
    place[touched] = first + np.arange(touched.shape[0])
    place[last:] -= block.n_shared_aux - touched.shape[0]
    narrow = replace(
        matrix,
        cols=torch.from_numpy(place).to(device)[matrix.cols],
        n_cols=block.n_columns - block.n_shared_aux + touched.shape[0],
    )
    return narrow, torch.from_numpy(touched - first).to(torch.int64).to(device)


def _add(backend: Backend, total: torch.Tensor, x: torch.Tensor) -> None:
    """total += x, where `total` is a slice of longer planes."""
    total.copy_(backend.add(total, x, FR))


def _grow(backend: Backend, total: torch.Tensor, places: torch.Tensor, x: torch.Tensor) -> None:
    """total[:, places] += x, places distinct."""
    total[:, places] = backend.add(total[:, places], x.contiguous(), FR)


def _grow_repeated(
    backend: Backend, total: torch.Tensor, places: torch.Tensor, x: torch.Tensor
) -> None:
    """total[:, places] += x, where a place may occur more than once."""
    while places.numel():
        ordered, order = places.sort(stable=True)
        # the first of each run of equal places now, the others in the next round
        first = torch.ones_like(ordered, dtype=torch.bool)
        first[1:] = ordered[1:] != ordered[:-1]
        now, later = order[first], order[~first]
        _grow(backend, total, places[now], x[:, now])
        places, x = places[later], x[:, later]


def _sum_copies(backend: Backend, x: torch.Tensor) -> torch.Tensor:
    """`[8, n, k]` to `[8, n]`, adding up in halves."""
    if x.shape[2] == 0:
        return x.new_zeros(x.shape[:2])
    while x.shape[2] > 1:
        half = x.shape[2] // 2
        left, right, rest = x[..., :half], x[..., half : 2 * half], x[..., 2 * half :]
        x = torch.cat((backend.add(left.contiguous(), right.contiguous(), FR), rest), dim=2)
    return x.squeeze(2).contiguous()
