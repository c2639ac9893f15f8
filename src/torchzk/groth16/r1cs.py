"""A rank-1 constraint system as a value: a prologue, then one block repeated.

A constraint is <A,z> * <B,z> = <C,z>. A large circuit repeats one subcircuit, so only two blocks
are ever stored and `copies` says how often the second one occurs. Variables and rows of the
whole system are numbered as sequential synthesis numbers them: the constant ONE, the prologue's,
copy 0's, copy 1's, ...; inputs and aux apart. Source: spec/groth16.md section 1.

What every copy reads of the prologue is shared; what each copy reads at another place is imported.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from torchzk.errors import LayoutError
from torchzk.ops.layout import check_limbs
from torchzk.params.domains import Domain, domain_for
from torchzk.params.fields import FR

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class SparseRows:
    """One of A, B, C of a block, in compressed rows, on the host."""

    starts: Array
    """int64 `[m + 1]`"""
    cols: Array
    """int32 `[nnz]`: index into the block's variable vector, ascending within a row.

    Imports of a copy need not lie in the prologue in that order.
    """
    coefficients: Array
    """int32 `[nnz]`: index into the block's table."""

    @property
    def nnz(self) -> int:
        return self.cols.shape[0]


@dataclass(frozen=True, eq=False)
class Block:
    """Constraints over shared variables, imported ones, and variables of the block's own.

    The variable vector is shared inputs (ONE first), own inputs, shared aux, imported aux, own
    aux. What is shared or imported belongs to the prologue; what is shared is the same for every
    copy.
    """

    n_shared_inputs: int
    n_inputs: int
    n_shared_aux: int
    n_imports: int
    n_aux: int
    n_constraints: int
    a: SparseRows
    b: SparseRows
    c: SparseRows
    table: tuple[int, ...]
    """The distinct coefficients, canonical, none of them 0."""

    @property
    def input_columns(self) -> int:
        """Columns of inputs, which come first in the variable vector."""
        return self.n_shared_inputs + self.n_inputs

    @property
    def n_columns(self) -> int:
        """v: length of the variable vector."""
        return self.input_columns + self.n_shared_aux + self.n_imports + self.n_aux

    @property
    def import_columns(self) -> slice:
        """Columns of imported aux."""
        first = self.input_columns + self.n_shared_aux
        return slice(first, first + self.n_imports)

    @property
    def matrices(self) -> tuple[SparseRows, SparseRows, SparseRows]:
        return (self.a, self.b, self.c)


@dataclass(frozen=True, eq=False)
class R1cs:
    """`prologue`, then `copies` times `block`. Compared and hashed by identity.

    Raises:
        LayoutError: The parts do not fit together.
    """

    prologue: Block
    block: Block
    copies: int
    imported: Array | None = None
    """int64 `[copies, n_imports]`: aux of the prologue; None for a block without imports."""

    def __post_init__(self) -> None:
        head, body = self.prologue, self.block
        shared = (body.n_shared_inputs, body.n_shared_aux)
        if (head.n_shared_inputs, head.n_shared_aux, head.n_imports) != (1, 0, 0):
            raise LayoutError("a prologue shares ONE and nothing else")
        if shared != (head.input_columns, head.n_aux):
            raise LayoutError(f"the block shares {shared} variables, the prologue has others")
        expected = (self.copies, body.n_imports)
        if self.imports.shape != expected:
            raise LayoutError(f"imports {expected} expected, got {self.imports.shape}")
        if self.imports.size:
            self._check_imports()

    def _check_imports(self) -> None:
        """A variable that a copy had under two names could stand in a row twice."""
        if self.imports.min() < 0 or self.imports.max() >= self.prologue.n_aux:
            raise LayoutError(f"imports must be below the prologue's {self.prologue.n_aux} aux")
        ascending = np.sort(self.imports, axis=1)
        if (ascending[:, 1:] == ascending[:, :-1]).any():
            raise LayoutError("a copy imports one variable twice")
        both = np.zeros(self.prologue.n_aux, dtype=np.bool_)
        both[self.imports] = True
        first, last = self.block.input_columns, self.block.import_columns.start
        for rows in self.block.matrices:
            shared = rows.cols[(rows.cols >= first) & (rows.cols < last)]
            if both[shared - first].any():
                raise LayoutError("a variable is both shared and imported")

    @cached_property
    def imports(self) -> Array:
        """int64 `[copies, n_imports]`: the prologue's aux that each copy imports."""
        if self.imported is None:
            return np.zeros((self.copies, 0), dtype=np.int64)
        return self.imported

    @property
    def n_inputs(self) -> int:
        """Public inputs, the constant ONE included."""
        return self.prologue.input_columns + self.copies * self.block.n_inputs

    @property
    def n_aux(self) -> int:
        return self.prologue.n_aux + self.copies * self.block.n_aux

    @property
    def n_constraints(self) -> int:
        """Constraints as synthesised, without the appended input rows."""
        return self.prologue.n_constraints + self.copies * self.block.n_constraints

    @property
    def n_rows(self) -> int:
        """Constraints with one row `input_i | 0 | 0` appended for each input."""
        return self.n_constraints + self.n_inputs

    @cached_property
    def domain(self) -> Domain:
        return domain_for(self.n_rows)

    @property
    def nnz(self) -> tuple[int, int, int]:
        """Non-zero coefficients of A, B and C as synthesised."""
        pairs = zip(self.prologue.matrices, self.block.matrices, strict=True)
        a, b, c = (head.nnz + self.copies * body.nnz for head, body in pairs)
        return (a, b, c)


@dataclass(frozen=True, eq=False)
class Assignment:
    """Values of every variable, in Montgomery form, in global order."""

    inputs: torch.Tensor
    """int32 `[8, n_inputs]`; the first is ONE."""
    aux: torch.Tensor
    """int32 `[8, n_aux]`"""

    def check(self, r1cs: R1cs) -> None:
        """Raise `LayoutError` unless the lengths are those of `r1cs`."""
        check_limbs(self.inputs, FR)
        check_limbs(self.aux, FR)
        got = (self.inputs.shape[1:], self.aux.shape[1:])
        if got != ((r1cs.n_inputs,), (r1cs.n_aux,)):
            expected = f"{r1cs.n_inputs} inputs and {r1cs.n_aux} aux"
            raise LayoutError(f"{expected} expected, got {[list(s) for s in got]}")
