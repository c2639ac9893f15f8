"""A sparse matrix over Fr whose coefficients come from a short table, and copies of its vector."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from torchzk.errors import LayoutError
from torchzk.ops.layout import check_limbs
from torchzk.params.fields import FR


@dataclass(frozen=True, eq=False)
class Csr:
    """`[m, v]` in compressed rows, on one device. Compared and hashed by identity."""

    rows: torch.Tensor
    """int64 `[m + 1]`: where each row starts in `cols`."""
    cols: torch.Tensor
    """int64 `[nnz]`: the variable of each term."""
    coefficients: torch.Tensor
    """int64 `[nnz]`: the term's coefficient, an index into `table`."""
    table: torch.Tensor
    """int32 `[8, distinct]`: Fr in Montgomery form."""
    n_cols: int
    """v"""

    @property
    def n_rows(self) -> int:
        return self.rows.shape[0] - 1


@dataclass(frozen=True, eq=False)
class Copies:
    """Where the variables of each copy of a block lie in the assignment, and which are meant.

    The block's variable vector is shared inputs, own inputs, shared aux, imported aux, own aux.
    Of copy k these are the first inputs, `n_inputs` inputs from `n_shared_inputs` + k `n_inputs`
    on, the first aux, the aux that row k of `imports` names, and `n_aux` aux from
    `n_shared_aux` + k `n_aux` on.
    """

    n_shared_inputs: int
    n_inputs: int
    """Own inputs of one copy."""
    n_shared_aux: int
    n_aux: int
    """Own aux of one copy."""
    imports: torch.Tensor
    """int64 `[copies, n_imports]`: indexes into aux, all of them valid."""
    first: int
    last: int
    """Copies `first` to `last` - 1 are meant."""

    @property
    def n_columns(self) -> int:
        """v: length of the variable vector."""
        own = self.n_inputs + self.imports.shape[1] + self.n_aux
        return self.n_shared_inputs + self.n_shared_aux + own

    def check(
        self, matrix: Csr, inputs: torch.Tensor, aux: torch.Tensor, out: torch.Tensor
    ) -> None:
        """Raise `LayoutError` unless `ops.spmv_copies` may be called with these."""
        for x in (inputs, aux, out):
            check_limbs(x, FR)
            if x.ndim != 2:
                raise LayoutError(f"copies are computed on planes [8, n], got {list(x.shape)}")
        if self.imports.dtype != torch.int64 or self.imports.ndim != 2:
            raise LayoutError("imports are int64 [copies, n_imports]")
        if self.n_columns != matrix.n_cols:
            raise LayoutError(
                f"a matrix of {matrix.n_cols} columns got copies of {self.n_columns} variables"
            )
        if not 0 <= self.first <= self.last <= self.imports.shape[0]:
            raise LayoutError(
                f"copies {self.first} to {self.last} of {self.imports.shape[0]} were asked for"
            )
        needed = (
            self.n_shared_inputs + self.last * self.n_inputs,
            self.n_shared_aux + self.last * self.n_aux,
        )
        got = (inputs.shape[1], aux.shape[1])
        if needed[0] > got[0] or needed[1] > got[1]:
            raise LayoutError(f"copies need {needed} inputs and aux, got {got}")
        rows = (self.last - self.first) * matrix.n_rows
        if out.shape[1] != rows or (rows > 1 and out.stride(1) != 1):
            raise LayoutError(
                f"the copies' rows go to [8, {rows}], side by side, "
                f"got {list(out.shape)} with strides {out.stride()}"
            )
