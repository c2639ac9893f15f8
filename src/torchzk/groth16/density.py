"""Which variables each query of a proving key touches. Source: spec/groth16.md section 4."""

from __future__ import annotations

from dataclasses import dataclass

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


def density(r1cs: R1cs) -> Density:
    """Density over all variables in global order: `[n_aux]`, `[n_inputs]`, `[n_aux]`."""
    head, body = block_density(r1cs.prologue), block_density(r1cs.block)
    no_imports = np.zeros((r1cs.copies, 0), dtype=np.int64)
    return Density(
        a_aux=_expand(head.a_aux, body.a_aux, r1cs.imports),
        b_inputs=_expand(head.b_inputs, body.b_inputs, no_imports),
        b_aux=_expand(head.b_aux, body.b_aux, r1cs.imports),
    )


def _touched(rows: SparseRows, n_columns: int) -> Array:
    out = np.zeros(n_columns, dtype=np.bool_)
    out[rows.cols] = True
    return out


def _expand(head: Array, body: Array, imports: Array) -> Array:
    """The prologue's variables, touched by it or by any copy, then each copy's own."""
    copies, n_imports = imports.shape
    n_shared = head.shape[0]
    shared, imported, own = np.split(body, (n_shared, n_shared + n_imports))
    by_any = head | shared if copies else head.copy()
    by_any[imports[:, imported]] = True
    return np.concatenate((by_any, np.tile(own, copies)))
