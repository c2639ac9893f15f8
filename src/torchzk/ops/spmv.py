"""Sparse matrices over Fr by dense vectors: A z, B z and C z, and the setup's transposes."""

from __future__ import annotations

import torch

from torchzk.errors import LayoutError
from torchzk.ops import wide, wide_fr
from torchzk.ops.chunks import chunk_size
from torchzk.ops.csr import Copies, Csr
from torchzk.ops.layout import check_limbs, pack_mont
from torchzk.params.fields import FR

# products that are gathered at once, in pieces of the device's size
_PIECES = 8
# and at most as many terms, so that the words of a row's sum stay below 2^40
_MAX_TERMS = 1 << 16
# variables that are gathered for a batch of copies
_MAX_VARIABLES = 1 << 22


def spmv(matrix: Csr, z: torch.Tensor) -> torch.Tensor:
    """The product of a matrix and a vector, or of k vectors at once.

    Args:
        matrix: `[m, v]` with coefficients in Montgomery form.
        z: Limb tensor `[8, v]` or `[8, v, k]`, in either form, which is kept.

    Returns:
        A new limb tensor `[8, m]` or `[8, m, k]`.

    Raises:
        LayoutError: `z` is not a limb tensor of Fr, or not of `v` elements.
    """
    check_limbs(z, FR)
    if z.ndim > 3 or z.shape[1] != matrix.n_cols:
        raise LayoutError(f"a matrix of {matrix.n_cols} columns got a vector {list(z.shape)}")
    if z.ndim == 2:
        return spmv(matrix, z.unsqueeze(2)).squeeze(2)
    k, nnz = z.shape[2], matrix.cols.shape[0]
    out = torch.zeros(FR.n_limbs, matrix.n_rows, k, dtype=torch.int32, device=z.device)
    if k == 0:
        return out
    table = _Table(matrix.table)
    step = min(max(_PIECES * chunk_size(z.device) // k, 1), _MAX_TERMS)
    for start in range(0, nnz, step):
        stop = min(start + step, nnz)
        terms = torch.arange(start, stop, device=z.device)
        rows = torch.searchsorted(matrix.rows, terms, right=True) - 1
        first, last = int(rows[0]), int(rows[-1])
        products = table.times(matrix.coefficients[start:stop], z[:, matrix.cols[start:stop]])
        sums = _sum_by_row(products, matrix.rows[first : last + 2].clamp(start, stop) - start)
        # the first row may have begun in the piece before
        sums[:, 0] += wide.from_limbs(out[:, first], FR)
        out[:, first : last + 1] = wide_fr.to_limbs(sums.flatten(1)).view(FR.n_limbs, -1, k)
    return out


def spmv_transposed(matrix: Csr, y: torch.Tensor) -> torch.Tensor:
    """The product of the transposed matrix and `y` `[8, m]` or `[8, m, k]`; see `spmv`."""
    return spmv(transpose(matrix), y)


def spmv_copies(
    matrix: Csr, copies: Copies, inputs: torch.Tensor, aux: torch.Tensor, out: torch.Tensor
) -> None:
    """The product of a block's matrix and the variables of each of its copies, into `out`.

    Args:
        matrix: `[m, v]` with coefficients in Montgomery form.
        copies: Where the variables of a copy lie, and which copies to compute.
        inputs: Limb tensor `[8, n_inputs]`, of all copies.
        aux: Limb tensor `[8, n_aux]`, of all copies, in the same form.
        out: int32 `[8, copies * m]`, all rows of one copy before those of the next. It may be a
            slice of longer planes, and is written in place.

    Raises:
        LayoutError: The lengths do not belong together, or a plane of `out` is not contiguous.
    """
    copies.check(matrix, inputs, aux, out)
    step = max(1, _MAX_VARIABLES // max(1, matrix.n_cols, matrix.n_rows))
    for first in range(copies.first, copies.last, step):
        last = min(first + step, copies.last)
        product = spmv(matrix, _variables(copies, inputs, aux, first, last))
        start, stop = ((k - copies.first) * matrix.n_rows for k in (first, last))
        out[:, start:stop] = product.transpose(1, 2).flatten(1)


def _variables(
    copies: Copies, inputs: torch.Tensor, aux: torch.Tensor, first: int, last: int
) -> torch.Tensor:
    """The variable vectors of copies `first` to `last`: `[8, v, copies]`."""
    k = last - first
    parts = []
    shapes = (
        (inputs, copies.n_shared_inputs, copies.n_inputs, None),
        (aux, copies.n_shared_aux, copies.n_aux, copies.imports[first:last].t()),
    )
    for x, n_shared, n, imports in shapes:
        own = x[:, n_shared + first * n : n_shared + last * n].reshape(FR.n_limbs, k, n)
        parts.append(x[:, :n_shared, None].expand(-1, -1, k))
        if imports is not None:
            parts.append(x[:, imports])
        parts.append(own.transpose(1, 2))
    return torch.cat(parts, dim=1)


def transpose(matrix: Csr) -> Csr:
    """The transposed matrix, with the same table; terms of a row in ascending order."""
    counts = torch.bincount(matrix.cols, minlength=matrix.n_cols)
    order = torch.argsort(matrix.cols, stable=True)
    ids = torch.arange(matrix.n_rows, device=matrix.rows.device)
    rows = torch.repeat_interleave(ids, matrix.rows.diff())
    return Csr(
        rows=torch.cat((counts.new_zeros(1), counts.cumsum(0))),
        cols=rows[order],
        coefficients=matrix.coefficients[order],
        table=matrix.table,
        n_cols=matrix.n_rows,
    )


def _sum_by_row(terms: torch.Tensor, bounds: torch.Tensor) -> torch.Tensor:
    """Sums of `terms` `[W, t, k]` between `bounds` `[m + 1]`: `[W, m, k]`.

    Differences of running sums, exact since words stay far below 2^53.
    """
    running = torch.cat((torch.zeros_like(terms[:, :1]), terms), dim=1).cumsum(1)
    return running[:, bounds].diff(dim=1)


class _Table:
    """The distinct coefficients of a matrix, those that need no multiplication set apart."""

    def __init__(self, limbs: torch.Tensor) -> None:
        units = pack_mont([1, FR.modulus - 1], FR, limbs.device)
        is_one, is_minus_one = ((limbs == units[:, i : i + 1]).all(0) for i in range(2))
        self._words = wide_fr.to_wide(limbs)
        self._signs = is_one.double() - is_minus_one.double()

    def times(self, ids: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
        """Coefficients `ids` `[t]` by limbs `[8, t, k]`: normal elements `[W, t, k]`."""
        t, k = z.shape[1:]
        words = wide_fr.to_wide(z.flatten(1)).view(-1, t, k)
        signs = self._signs[ids]
        out = words * signs.view(-1, 1)
        others = (signs == 0).nonzero().squeeze(1)
        factors = self._words[:, ids[others], None].expand(-1, -1, k)
        product = wide_fr.mul(words[:, others].flatten(1), factors.flatten(1))
        out[:, others] = product.view(words.shape[0], others.shape[0], k)
        return out
