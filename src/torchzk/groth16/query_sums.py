"""Sums of a query's points times its scalars, as many points at once as there is room for.

What is 1 is added up, what is 0 left out, and only other scalars are multiplied: those of all
pieces together, unless they are most of a piece, which is then multiplied as it lies.

What lies on the device beside points and assignment, in bytes for a point of a piece: 1 for its
class, 1 for each of two masks, and 4 for the index of its variable, unless the query has all aux.
Of a piece that is multiplied whole, 32 for its scalars, and then nothing else. Of any other, 8 for
each 1 while those are added up, and as much for each other scalar after that; the tail, at most
`Room.tail_points` of 32 and a point each, is there twice while it is put together, and once more
for what is gathered next.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import torch

from torchzk.backends import Backend
from torchzk.groth16.query_variables import QueryVariables
from torchzk.groth16.r1cs import Assignment
from torchzk.groth16.room import Room
from torchzk.groth16.streams import Part
from torchzk.ops.layout import ONE, OTHER
from torchzk.params import integers
from torchzk.params.curves import Curve, Point
from torchzk.params.fields import FR


@dataclass(frozen=True, eq=False)
class Values:
    """An assignment as queries need it."""

    inputs: torch.Tensor
    """int32 `[8, n_inputs]`, canonical."""
    aux: torch.Tensor
    """int32 `[8, n_aux]` in Montgomery form."""
    kinds: torch.Tensor
    """uint8 `[n_aux]`, as `ops.classes` has them."""


def values_of(backend: Backend, assignment: Assignment) -> Values:
    """What there is to know of an assignment before the first query."""
    inputs = backend.from_mont(assignment.inputs, FR)
    return Values(inputs, assignment.aux, backend.classes(assignment.aux))


class Scalars(Protocol):
    """The scalars of a query."""

    def add_to(self, sum_: Sum, part: Part, rows: torch.Tensor) -> None:
        """Add a part's points, the rows, times its scalars."""


@dataclass(frozen=True, eq=False)
class FullScalars:
    """Scalars that are large."""

    scalars: torch.Tensor
    """int32 `[8, n]`, canonical."""

    def add_to(self, sum_: Sum, part: Part, rows: torch.Tensor) -> None:
        """As `Scalars.add_to`."""
        sum_.multiply(self.scalars[:, part.start : part.stop], rows)


@dataclass(frozen=True, eq=False)
class VariableScalars:
    """Scalars that are variables, many of them 0 or 1."""

    values: Values
    variables: QueryVariables

    def add_to(self, sum_: Sum, part: Part, rows: torch.Tensor) -> None:
        """As `Scalars.add_to`."""
        i = self.variables.n_inputs
        inputs = self.values.inputs[:, self.variables.inputs[part.start : part.stop]]
        first, last = max(part.start - i, 0), max(part.stop - i, 0)
        _add_piece(sum_, rows, inputs, _aux_of(self.values, self.variables, first, last))


@dataclass(frozen=True)
class _Aux:
    """The aux of a piece: those that `index` names, or all, with their classes."""

    aux: torch.Tensor
    index: torch.Tensor | None
    kinds: torch.Tensor

    def scalars(self, backend: Backend, out: torch.Tensor) -> None:
        """All of them, canonical, into `out` `[8, n]`."""
        backend.from_mont_at(self.aux, self.index, out)

    def scalars_at(self, backend: Backend, places: torch.Tensor) -> torch.Tensor:
        """Those at `places`, int64 `[k]`: canonical `[8, k]`."""
        index = places.int() if self.index is None else self.index.index_select(0, places)
        out = torch.empty(FR.n_limbs, len(places), dtype=torch.int32, device=places.device)
        backend.from_mont_at(self.aux, index, out)
        return out


def _aux_of(values: Values, variables: QueryVariables, start: int, stop: int) -> _Aux:
    """The aux of a query from its place `start` to `stop`."""
    if variables.index is None:
        return _Aux(values.aux[:, start:stop], None, values.kinds[start:stop])
    index = variables.index.piece(start, stop)
    return _Aux(values.aux, index, values.kinds.index_select(0, index))


def _add_piece(sum_: Sum, rows: torch.Tensor, inputs: torch.Tensor, aux: _Aux) -> None:
    """Add a piece: the points of some inputs, canonical `[8, i]`, then those of some aux."""
    i, n = inputs.shape[1], len(aux.kinds)
    is_other = aux.kinds == OTHER
    # counted first: a list of most of a piece would take more than its scalars
    if 2 * int(is_other.count_nonzero()) > n:
        scalars = torch.empty(FR.n_limbs, i + n, dtype=torch.int32, device=rows.device)
        scalars[:, :i] = inputs
        aux.scalars(sum_.backend, scalars[:, i:])
        # an index takes as much as a word of each scalar
        del aux, is_other
        sum_.multiply(scalars, rows)
        return
    sum_.gather(inputs, rows[:i].clone())
    rows = rows[i:]
    sum_.add(sum_.backend.batch_add(rows, aux.kinds == ONE, sum_.curve))
    others, step = is_other.nonzero().squeeze(1), sum_.room.tail_points(sum_.curve)
    for k in range(0, len(others), step):
        places = others[k : k + step]
        scalars = aux.scalars_at(sum_.backend, places)
        sum_.gather(scalars, rows.index_select(0, places))


@dataclass
class Sum:
    """A query's sum as its pieces come, with the tail that is still to be multiplied."""

    backend: Backend
    curve: Curve
    room: Room
    point: Point = None
    tail: list[tuple[torch.Tensor, torch.Tensor]] = field(default_factory=list)

    def add(self, point: Point) -> None:
        self.point = integers.add(self.curve, self.point, point)

    def multiply(self, scalars: torch.Tensor, rows: torch.Tensor) -> None:
        """Add the points times canonical scalars `[8, n]`."""
        limit = self.room.scratch_bytes
        self.add(self.backend.msm(scalars, rows, self.curve, limit_bytes=limit))

    def gather(self, scalars: torch.Tensor, rows: torch.Tensor) -> None:
        """The same, when there are as many as is worth it; both are kept until then."""
        if sum(len(kept) for _, kept in self.tail) + len(rows) > self.room.tail_points(self.curve):
            self._multiply_tail()
        if len(rows):
            self.tail.append((scalars, rows))

    def finish(self) -> Point:
        """The sum of all that was added."""
        self._multiply_tail()
        return self.point

    def _multiply_tail(self) -> None:
        if not self.tail:
            return
        scalars, rows = zip(*self.tail, strict=True)
        self.tail = []
        # what was gathered is dropped before it is multiplied
        together = (torch.cat(scalars, dim=1), torch.cat(rows))
        del scalars, rows
        self.multiply(*together)
