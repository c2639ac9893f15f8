"""Which variables each query of a proving key touches, and how many points it so has.

Source: spec/groth16.md section 4.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from torchzk.groth16.keys import QueryLengths
from torchzk.groth16.r1cs import Array, Block, R1cs, SparseRows


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
class Density:
    """Variables with a non-zero coefficient in some row of A, and of B.

    A is dense over inputs, which the appended input rows see to; L is dense over aux.
    """

    a_aux: Touched
    b_inputs: Touched
    b_aux: Touched


@lru_cache(maxsize=8)
def density(r1cs: R1cs) -> Density:
    """Which variables each query has; as small as the blocks are, and kept for a circuit."""
    head, body = r1cs.prologue, r1cs.block
    _, a_of_head = _columns(head, head.a)
    _, a_of_body = _columns(body, body.a)
    inputs_of_head, b_of_head = _columns(head, head.b)
    inputs_of_body, b_of_body = _columns(body, body.b)
    no_imports = np.zeros((r1cs.copies, 0), dtype=np.int64)
    return Density(
        a_aux=_touched_by_any(a_of_head, a_of_body, r1cs.imports),
        b_inputs=_touched_by_any(inputs_of_head, inputs_of_body, no_imports),
        b_aux=_touched_by_any(b_of_head, b_of_body, r1cs.imports),
    )


def expected_lengths(r1cs: R1cs) -> QueryLengths:
    """The lengths that a key of this constraint system must have."""
    dense = density(r1cs)
    b = dense.b_inputs.count + dense.b_aux.count
    return QueryLengths(
        h=r1cs.domain.size - 1,
        l=r1cs.n_aux,
        a=r1cs.n_inputs + dense.a_aux.count,
        b_g1=b,
        b_g2=b,
    )


def _columns(block: Block, rows: SparseRows) -> tuple[Array, Array]:
    """Which columns of a block's matrix are not empty: its inputs and its aux, as they stand."""
    touched = np.zeros(block.n_columns, dtype=np.bool_)
    touched[rows.cols] = True
    return touched[: block.input_columns], touched[block.input_columns :]


def _touched_by_any(head: Array, body: Array, imports: Array) -> Touched:
    copies, n_imports = imports.shape
    n_shared = head.shape[0]
    shared, imported, own = np.split(body, (n_shared, n_shared + n_imports))
    by_any = head | shared if copies else head.copy()
    by_any[imports[:, imported]] = True
    return Touched(by_any, own, copies)
