"""A sparse matrix as its kernel reads it: made once for a matrix, and kept as long as it lives."""

from __future__ import annotations

from dataclasses import dataclass
from weakref import WeakKeyDictionary

import torch

from torchzk.ops.csr import Csr
from torchzk.ops.layout import pack
from torchzk.ops.spmv import transpose
from torchzk.params.fields import FR
from torchzk.triton_kernels.launch import wait

SHORT = 32
"""Rows of at most as many terms are one lane's work; longer ones are a warp's."""
LONGEST = 1 << 13
"""Rows of more terms are cut into pieces, so that no warp works long alone."""
WINDOW = 1 << 12
"""Rows that are put in order of their length. Its rows are written at about the same time."""


@dataclass(frozen=True, eq=False)
class Prepared:
    """Indices in 32 bits where they fit. Row lists are by kind of kernel."""

    starts: torch.Tensor
    """`[m + 1]`: where each row starts."""
    cols: torch.Tensor
    """`[nnz]`"""
    ids: torch.Tensor
    """`[nnz]`: indexes into `table`. Those of 1 and -1 are 0 and 1."""
    table: torch.Tensor
    """int32 `[8, distinct + 3]`: 1, -1, the distinct coefficients, R^2; Montgomery form."""
    short: torch.Tensor
    """Rows of at most `SHORT` terms, within each window in order of their length."""
    long: torch.Tensor
    """All other rows."""


@dataclass(frozen=True, eq=False)
class Cut:
    """A matrix with rows of more than `LONGEST` terms, as the product of two without."""

    sums: Csr
    pieces: Csr


_PREPARED: WeakKeyDictionary[Csr, Prepared | Cut] = WeakKeyDictionary()
_TRANSPOSED: WeakKeyDictionary[Csr, Csr] = WeakKeyDictionary()


def prepared(matrix: Csr) -> Prepared | Cut:
    """What is launched for `matrix`."""
    found = _PREPARED.get(matrix)
    if found is None:
        found = _prepare(matrix)
        wait(matrix.rows.device)
        _PREPARED[matrix] = found
    return found


def transposed(matrix: Csr) -> Csr:
    """The transposed matrix."""
    found = _TRANSPOSED.get(matrix)
    if found is None:
        found = transpose(matrix)
        wait(matrix.rows.device)
        _TRANSPOSED[matrix] = found
    return found


def _prepare(matrix: Csr) -> Prepared | Cut:
    lengths = matrix.rows.diff()
    if matrix.n_rows and int(lengths.max()) > LONGEST:
        return _cut(matrix, lengths)
    is_short = lengths <= SHORT
    rows = torch.arange(matrix.n_rows, device=lengths.device)
    short = rows[is_short]
    keys = short // WINDOW * (SHORT + 1) + lengths[is_short]
    short = short[torch.argsort(keys, stable=True)]
    table, ids = _with_units(matrix)
    return Prepared(
        starts=_narrow(matrix.rows, matrix.cols.shape[0]),
        cols=_narrow(matrix.cols, matrix.n_cols),
        ids=_narrow(ids, table.shape[1]),
        table=table,
        short=_narrow(short, matrix.n_rows),
        long=_narrow(rows[~is_short], matrix.n_rows),
    )


def _with_units(matrix: Csr) -> tuple[torch.Tensor, torch.Tensor]:
    """The table of `Prepared`, and the indexes into it."""
    units = [FR.to_mont(1), FR.to_mont(-1 % FR.modulus)]
    r2 = FR.r * FR.r % FR.modulus
    ends = pack([*units, r2], FR, matrix.table.device)
    table = torch.cat((ends[:, :2], matrix.table, ends[:, 2:]), dim=1).contiguous()
    places = torch.arange(matrix.table.shape[1], device=table.device) + 2
    for i in range(2):
        places[(matrix.table == ends[:, i : i + 1]).all(dim=0)] = i
    return table, places[matrix.coefficients]


def _narrow(x: torch.Tensor, stop: int) -> torch.Tensor:
    """Indexes up to `stop`, as int32 if they fit."""
    return x.to(torch.int32) if stop < 1 << 31 else x.contiguous()


def _cut(matrix: Csr, lengths: torch.Tensor) -> Cut:
    """Every row in pieces of `LONGEST` terms, and the matrix of ones that adds them up."""
    device = matrix.rows.device
    counts = (lengths + LONGEST - 1) // LONGEST
    pieces = int(counts.sum())
    firsts = torch.cat((counts.new_zeros(1), counts.cumsum(0)))
    nth = torch.arange(pieces, device=device) - torch.repeat_interleave(firsts[:-1], counts)
    starts = torch.repeat_interleave(matrix.rows[:-1], counts) + nth * LONGEST
    cut = Csr(
        rows=torch.cat((starts, matrix.rows[-1:])),
        cols=matrix.cols,
        coefficients=matrix.coefficients,
        table=matrix.table,
        n_cols=matrix.n_cols,
    )
    sums = Csr(
        rows=firsts,
        cols=torch.arange(pieces, device=device),
        coefficients=torch.zeros(pieces, dtype=torch.int64, device=device),
        table=pack([FR.to_mont(1)], FR, device),
        n_cols=pieces,
    )
    return Cut(sums, cut)
