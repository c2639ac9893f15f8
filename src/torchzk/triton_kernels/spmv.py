"""Sparse products, one kernel for all of them. Reference: `torchzk.ops.spmv`.

A row is the work of one lane, or of a warp if it has more than `spmv_code.SHORT` terms. Variables
are read where they lie. Each warp is a program of its own, so that its lanes agree at no cost:
what is 1 or -1 in all of them is not multiplied.
"""

# in kernels a tuple grows
# mypy: disable-error-code="assignment, misc"
from __future__ import annotations

import torch
import triton
import triton.language as tl

from torchzk.errors import LayoutError
from torchzk.ops.csr import Copies, Csr
from torchzk.ops.layout import check_limbs
from torchzk.params.fields import FR
from torchzk.triton_kernels import limbs, sums
from torchzk.triton_kernels.launch import on_device, planes
from torchzk.triton_kernels.spmv_code import Cut, prepared, transposed
from torchzk.triton_kernels.variants import field_code_on

WARP = 32
_SIZES = ("out_plane", "out_row", "out_copy", "n", "copies", "first", "table_plane")
_SIZES += ("inputs_plane", "aux_plane", "aux_column", "aux_copy", "aux_own")
_SIZES += ("n_shared_inputs", "n_inputs", "n_shared_aux", "n_imports")


# words are read and written one by one, wherever they start
@triton.jit(
    do_not_specialize=_SIZES,
    do_not_specialize_on_alignment=["out_ptr", "inputs_ptr", "aux_ptr"],
)
def spmv_kernel(
    out_ptr,  # int32: word, row and copy out_plane, out_row and out_copy apart
    order_ptr,  # [n] rows
    starts_ptr,  # [m + 1]
    cols_ptr,  # [nnz]
    ids_ptr,  # [nnz]
    table_ptr,  # [8, table_plane] int32: 1, -1, others, R^2
    inputs_ptr,  # [8, inputs] int32, words inputs_plane apart
    aux_ptr,  # int32: word, column and copy aux_plane, aux_column and aux_copy apart
    imports_ptr,  # [copies, n_imports]
    out_plane,
    out_row,
    out_copy,
    n,
    copies,
    first,
    table_plane,
    inputs_plane,
    aux_plane,
    aux_column,
    aux_copy,
    aux_own,  # where own aux of copy 0 begin
    n_shared_inputs,
    n_inputs,
    n_shared_aux,
    n_imports,
    LANES: tl.constexpr,  # lanes that share a row
    F: tl.constexpr,
    BLOCK: tl.constexpr,
):
    # copies first: they share what they read of the matrix
    pid = tl.program_id(0).to(tl.int64)
    nth = pid % copies
    copy = nth + first
    ROWS: tl.constexpr = BLOCK // LANES
    rows = pid // copies * ROWS + tl.arange(0, ROWS)[:, None]
    lanes = tl.arange(0, LANES)[None, :]
    there = rows < n
    row = tl.load(order_ptr + rows, mask=there, other=0).to(tl.int64)
    start = tl.load(starts_ptr + row, mask=there, other=0).to(tl.int64)
    stop = tl.load(starts_ptr + row + 1, mask=there, other=0).to(tl.int64)
    longest = tl.max(tl.max((stop - start).to(tl.int32), 1), 0)
    table_stride = tl.cast(table_plane, tl.int64)
    # the first columns that are own inputs, shared, imported and own aux
    shared_aux = tl.cast(n_shared_inputs, tl.int64) + n_inputs
    imported = shared_aux + n_shared_aux
    own_aux = imported + n_imports
    inputs_before = copy * n_inputs
    aux_before = tl.cast(aux_own, tl.int64) + copy * aux_copy
    zero = tl.zeros((ROWS, LANES), tl.uint32)
    total = ()
    W: tl.constexpr = F.W
    for _ in tl.static_range(W):
        total = total + (zero,)
    for step in range(tl.cdiv(longest, LANES)):
        term = start + step * LANES + lanes
        mask = term < stop
        col = tl.load(cols_ptr + term, mask=mask, other=0).to(tl.int64)
        kind = tl.load(ids_ptr + term, mask=mask, other=0).to(tl.int64)
        is_input = col < shared_aux
        is_import = (col >= imported) & (col < own_aux)
        among = tl.load(
            imports_ptr + copy * n_imports + (col - imported), mask=mask & is_import, other=0
        )
        in_aux = tl.where(is_import, among.to(tl.int64), col - shared_aux) * aux_column
        in_aux = tl.where(col >= own_aux, aux_before + (col - own_aux) * aux_column, in_aux)
        in_inputs = tl.where(col >= n_shared_inputs, inputs_before + col, col)
        base = tl.where(is_input, inputs_ptr.to(tl.int64), aux_ptr.to(tl.int64))
        base += 4 * tl.where(is_input, in_inputs, in_aux)
        plane = tl.where(is_input, tl.cast(inputs_plane, tl.int64), tl.cast(aux_plane, tl.int64))
        x = limbs.load(base.to(tl.pointer_type(tl.int32)), plane, 0, mask, F)
        others = kind > 1
        if tl.max(tl.max(others.to(tl.int32), 1), 0) > 0:
            factor = limbs.load(table_ptr, table_stride, kind, others, F)
            x = limbs.select(others, limbs.mul(factor, x, F), x, F)
        total = limbs.select(kind == 1, limbs.sub(total, x, F), limbs.add(total, x, F), F)
    if LANES > 1:
        r2 = limbs.load(table_ptr, table_stride, row * 0 + table_plane - 1, there, F)
        total = sums.over_lanes(total, r2, F)
    offs = row * out_row + nth * out_copy
    limbs.store(out_ptr, tl.cast(out_plane, tl.int64), offs, there, total, F)


def spmv(matrix: Csr, z: torch.Tensor) -> torch.Tensor:
    """As `torchzk.ops.spmv.spmv`, bit for bit."""
    check_limbs(z, FR)
    if z.ndim > 3 or z.shape[1] != matrix.n_cols:
        raise LayoutError(f"a matrix of {matrix.n_cols} columns got a vector {list(z.shape)}")
    out = torch.empty((FR.n_limbs, matrix.n_rows, *z.shape[2:]), dtype=z.dtype, device=z.device)
    x, y = (z, out) if z.ndim == 3 else (z.unsqueeze(2), out.unsqueeze(2))
    _product(matrix, x, y)
    return out


def spmv_transposed(matrix: Csr, y: torch.Tensor) -> torch.Tensor:
    """As `torchzk.ops.spmv.spmv_transposed`, bit for bit."""
    check_limbs(y, FR)
    if y.ndim > 3 or y.shape[1] != matrix.n_rows:
        raise LayoutError(f"a matrix of {matrix.n_rows} columns got a vector {list(y.shape)}")
    return spmv(transposed(matrix), y)


def spmv_copies(
    matrix: Csr, copies: Copies, inputs: torch.Tensor, aux: torch.Tensor, out: torch.Tensor
) -> None:
    """As `torchzk.ops.spmv.spmv_copies`, bit for bit."""
    copies.check(matrix, inputs, aux, out)
    (inputs, inputs_plane), (aux, aux_plane) = planes(inputs), planes(aux)
    where = (
        *(inputs_plane, aux_plane, 1, copies.n_aux, copies.n_shared_aux),
        *(copies.n_shared_inputs, copies.n_inputs, copies.n_shared_aux, copies.imports.shape[1]),
    )
    k = copies.last - copies.first
    read = (inputs, aux, copies.imports.contiguous())
    # every copy's rows, as [8, m, k]
    _launch(matrix, read, where, out.unflatten(1, (k, matrix.n_rows)).transpose(1, 2), copies.first)


def _product(matrix: Csr, z: torch.Tensor, out: torch.Tensor) -> None:
    """`[8, v, k]` to `[8, m, k]`, in any strides."""
    # a vector is the own aux of a block that has nothing else; nobody reads its imports, but with
    # another type the kernel would be compiled again
    where = (0, *z.stride(), 0, 0, 0, 0, 0)
    _launch(matrix, (z, z, matrix.rows), where, out, 0)


def _launch(
    matrix: Csr,
    read: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
    where: tuple[int, ...],
    out: torch.Tensor,
    first: int,
) -> None:
    m, k = out.shape[1:]
    if m == 0 or k == 0:
        return
    for x in (out, *read):
        if x.device != matrix.rows.device:
            raise LayoutError(f"a matrix on {matrix.rows.device} got a vector on {x.device}")
    form = prepared(matrix)
    if isinstance(form, Cut):
        partial = torch.empty(
            (FR.n_limbs, k, form.pieces.n_rows), dtype=torch.int32, device=out.device
        ).transpose(1, 2)
        _launch(form.pieces, read, where, partial, first)
        _product(form.sums, partial, out)
        return
    code = field_code_on(out.device, FR)
    for order, lanes in ((form.short, 1), (form.long, WARP)):
        n = order.shape[0]
        if n == 0:
            continue
        grid = (triton.cdiv(n, WARP // lanes) * k,)
        with on_device(out.device):
            spmv_kernel[grid](
                *(out, order, form.starts, form.cols, form.ids, form.table, *read),
                *(*out.stride(), n, k, first, form.table.shape[1], *where),
                LANES=lanes,
                F=code,
                BLOCK=WARP,
                num_warps=1,
            )
