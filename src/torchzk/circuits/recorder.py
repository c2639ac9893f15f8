"""Records the shape of a circuit: variables are numbered, constraints are written down, no values.

A gadget that occurs often is recorded once, as a `Template`, and spliced in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from torchzk.groth16.r1cs import Array, Block, SparseRows
from torchzk.params.fields import FR

Variable = int
"""Aux k is k, input i is ~i (negative)."""
ONE: Variable = ~0
"""Input 0, the constant 1."""
Lc = Mapping[Variable, int]
"""A linear combination: one coefficient a variable, any integer, taken modulo r."""


def add_scaled(total: dict[Variable, int], lc: Lc, factor: int = 1) -> None:
    """total += factor * lc, in place."""
    for variable, coefficient in lc.items():
        total[variable] = total.get(variable, 0) + factor * coefficient


def linear(*terms: tuple[Variable, int]) -> dict[Variable, int]:
    """The sum of coefficient times variable, equal variables merged."""
    total: dict[Variable, int] = {}
    for variable, coefficient in terms:
        total[variable] = total.get(variable, 0) + coefficient
    return total


@dataclass(frozen=True, eq=False)
class _Terms:
    """Some rows of one matrix: terms a row, then variable and coefficient id of each term.

    int32, since a block has tens of millions of terms.
    """

    lengths: Array
    variables: Array
    coefficients: Array


@dataclass
class _Matrix:
    """One of A, B, C while it is recorded: finished pieces, then loose rows."""

    pieces: list[_Terms] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)
    variables: list[int] = field(default_factory=list)
    coefficients: list[int] = field(default_factory=list)

    def gather(self) -> _Terms:
        """All rows so far in one piece, which is kept."""
        if self.lengths or len(self.pieces) != 1:
            self.append(_Terms(*(np.zeros(0, dtype=np.int32) for _ in range(3))))
            columns = (
                np.concatenate([getattr(p, name) for p in self.pieces])
                for name in ("lengths", "variables", "coefficients")
            )
            self.pieces = [_Terms(*columns)]
        return self.pieces[0]

    def append(self, terms: _Terms) -> None:
        """Add rows after those recorded so far."""
        if self.lengths:
            loose = (self.lengths, self.variables, self.coefficients)
            self.pieces.append(_Terms(*(np.array(x, dtype=np.int32) for x in loose)))
            self.lengths, self.variables, self.coefficients = [], [], []
        self.pieces.append(terms)


@dataclass(frozen=True, eq=False)
class Template:
    """A recording to be spliced into others, over `n_formal` variables that it is given."""

    n_formal: int
    n_aux: int
    """Aux it allocates itself."""
    matrices: tuple[_Terms, ...]
    table: tuple[int, ...]


class ConstraintSystem:
    """Takes down one block (`groth16.r1cs.Block`) in the order of the calls."""

    def __init__(self, shared_inputs: int = 1, shared_aux: int = 0, imports: int = 0) -> None:
        """Start after a prologue's variables, ONE included, and the block's imports.

        The block may use them all; its imports are the aux from `shared_aux` on.
        """
        self.n_inputs = self._shared_inputs = shared_inputs
        self._shared_aux, self._imports = shared_aux, imports
        self.n_aux = shared_aux + imports
        self.n_constraints = 0
        self._matrices = (_Matrix(), _Matrix(), _Matrix())
        self._ids: dict[int, int] = {}
        self._spliced: dict[Template, Array] = {}

    def alloc(self) -> Variable:
        """A new aux variable."""
        self.n_aux += 1
        return self.n_aux - 1

    def alloc_many(self, n: int) -> list[Variable]:
        """`n` new aux variables."""
        return [self.alloc() for _ in range(n)]

    def alloc_input(self) -> Variable:
        """A new public input."""
        self.n_inputs += 1
        return ~(self.n_inputs - 1)

    def enforce(self, a: Lc, b: Lc, c: Lc) -> None:
        """Record the constraint a * b = c; terms that are 0 modulo r are dropped."""
        for matrix, lc in zip(self._matrices, (a, b, c), strict=True):
            n = 0
            for variable, coefficient in lc.items():
                value = coefficient % FR.modulus
                if value:
                    matrix.variables.append(variable)
                    matrix.coefficients.append(self._ids.setdefault(value, len(self._ids)))
                    n += 1
            matrix.lengths.append(n)
        self.n_constraints += 1

    def splice(self, template: Template, given: Sequence[Variable]) -> Variable:
        """Record all of `template` over the variables `given`.

        Args:
            template: What to record.
            given: `template.n_formal` distinct variables, in the order of the formal ones. If two
                were equal, their terms in a row would have to be merged.

        Returns:
            The first of the `template.n_aux` aux variables that were allocated, in order.
        """
        if len(set(given)) != template.n_formal or len(given) != template.n_formal:
            raise ValueError(f"{template.n_formal} distinct variables needed, got {list(given)}")
        first = self.n_aux
        own = np.arange(first, first + template.n_aux, dtype=np.int32)
        # ONE is -1, so everything is one place further on
        variables = np.concatenate(([ONE], given, own), dtype=np.int32)
        if template not in self._spliced:
            ids = [self._ids.setdefault(value, len(self._ids)) for value in template.table]
            self._spliced[template] = np.array(ids, dtype=np.int32)
        ids_here = self._spliced[template]
        for matrix, rows in zip(self._matrices, template.matrices, strict=True):
            terms = (variables[rows.variables + 1], ids_here[rows.coefficients])
            matrix.append(_Terms(rows.lengths, *terms))
        self.n_aux += template.n_aux
        self.n_constraints += template.matrices[0].lengths.shape[0]
        return first

    def template(self, n_formal: int) -> Template:
        """The recording as a template whose first `n_formal` aux are the variables it is given."""
        if self.n_inputs != 1 or self._shared_aux or self._imports or self.n_aux < n_formal:
            raise ValueError("a template has no inputs and shares nothing but ONE")
        return Template(
            n_formal=n_formal,
            n_aux=self.n_aux - n_formal,
            matrices=tuple(m.gather() for m in self._matrices),
            table=tuple(self._ids),
        )

    def block(self) -> Block:
        """The finished recording."""
        a, b, c = (self._compress(m.gather()) for m in self._matrices)
        return Block(
            n_shared_inputs=self._shared_inputs,
            n_inputs=self.n_inputs - self._shared_inputs,
            n_shared_aux=self._shared_aux,
            n_imports=self._imports,
            n_aux=self.n_aux - self._shared_aux - self._imports,
            n_constraints=self.n_constraints,
            a=a,
            b=b,
            c=c,
            table=tuple(self._ids),
        )

    def _compress(self, terms: _Terms) -> SparseRows:
        """Columns of the block's variable vector, ascending within each row."""
        v = terms.variables
        cols = np.where(v < 0, ~v, v + self.n_inputs)
        first = np.arange(self.n_constraints) * (self.n_inputs + self.n_aux)
        places = np.repeat(first, terms.lengths)
        places += cols
        # a stable sort is quick on what is nearly sorted
        order = np.argsort(places, kind="stable")
        return SparseRows(
            starts=np.concatenate(([0], np.cumsum(terms.lengths, dtype=np.int64))),
            cols=cols[order],
            coefficients=terms.coefficients[order],
        )
