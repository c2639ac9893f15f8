"""A sparse matrix over Fr whose coefficients come from a short table."""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Csr:
    """`[m, v]` in compressed rows, on one device."""

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
