"""Which variables each query of a proving key touches. Source: spec/groth16.md section 4."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from torchzk.groth16.r1cs import Array, Block, R1cs, SparseRows


@dataclass(frozen=True, eq=False)
class Density:
    """Bool arrays: the variable has a non-zero coefficient in some row of that matrix.

    A is dense over inputs, which the appended input rows see to; L is dense over aux.
    """

    a_aux: Array
    b_inputs: Array
    b_aux: Array


def block_density(block: Block) -> Density:
    """Density over a block's own variable vector: inputs and aux as they stand there."""
    n = block.input_columns
    a, b = (_touched(rows, block.n_columns) for rows in (block.a, block.b))
    return Density(a_aux=a[n:], b_inputs=b[:n], b_aux=b[n:])


@dataclass(frozen=True, eq=False)
class Touched:
    """Bool arrays: which variables of one sort some row of a matrix touches, not written out."""

    head: Array
    """Of the prologue's variables, by it or by any copy."""
    own: Array
    """Of a copy's own variables, the same in every copy."""
    copies: int

    @property
    def count(self) -> int:
        """Variables that are touched."""
        return int(self.head.sum()) + self.copies * int(self.own.sum())

    def written_out(self) -> Array:
        """Over all variables of the sort, in global order."""
        return np.concatenate((self.head, np.tile(self.own, self.copies)))


@dataclass(frozen=True, eq=False)
class Patterns:
    """`Density` of a whole system, by its blocks."""

    a_aux: Touched
    b_inputs: Touched
    b_aux: Touched


@lru_cache(maxsize=8)
def patterns(r1cs: R1cs) -> Patterns:
    """Which variables each query has; as small as the blocks are, and kept for a circuit."""
    head, body = block_density(r1cs.prologue), block_density(r1cs.block)
    no_imports = np.zeros((r1cs.copies, 0), dtype=np.int64)
    return Patterns(
        a_aux=_touched_by_any(head.a_aux, body.a_aux, r1cs.imports),
        b_inputs=_touched_by_any(head.b_inputs, body.b_inputs, no_imports),
        b_aux=_touched_by_any(head.b_aux, body.b_aux, r1cs.imports),
    )


def density(r1cs: R1cs) -> Density:
    """Density over all variables in global order: `[n_aux]`, `[n_inputs]`, `[n_aux]`."""
    found = patterns(r1cs)
    a_aux, b_inputs, b_aux = (
        touched.written_out() for touched in (found.a_aux, found.b_inputs, found.b_aux)
    )
    return Density(a_aux, b_inputs, b_aux)


def _touched(rows: SparseRows, n_columns: int) -> Array:
    out = np.zeros(n_columns, dtype=np.bool_)
    out[rows.cols] = True
    return out


def _touched_by_any(head: Array, body: Array, imports: Array) -> Touched:
    copies, n_imports = imports.shape
    n_shared = head.shape[0]
    shared, imported, own = np.split(body, (n_shared, n_shared + n_imports))
    by_any = head | shared if copies else head.copy()
    by_any[imports[:, imported]] = True
    return Touched(by_any, own, copies)
