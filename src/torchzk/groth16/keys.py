"""Keys as data. Names are those of Groth16 (eprint 2016/260) as bellperson has them.

Source: spec/groth16.md sections 4 and 5.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, fields
from typing import Protocol

import torch

from torchzk.errors import KeyFileError, LayoutError
from torchzk.groth16.encoding import uncompressed_size
from torchzk.groth16.streams import Mark, Part, Parts, Piece, steps
from torchzk.ops.layout import check_rows
from torchzk.params.curves import G1, G2, Curve, Point

QUERIES: Mapping[str, Curve] = {"h": G1, "l": G1, "a": G1, "b_g1": G1, "b_g2": G2}
"""The queries in the order of a parameter file, and the group each lies in."""

_POINTS_AT_ONCE = 1 << 20
"""Points that are on their way while a key is loaded."""


@dataclass(frozen=True)
class VerifyingKey:
    """What a verifier needs, and the prover's constants with it."""

    alpha_g1: Point
    beta_g1: Point
    beta_g2: Point
    gamma_g2: Point
    delta_g1: Point
    delta_g2: Point
    ic: tuple[Point, ...]
    """(beta u_i + alpha v_i + w_i) / gamma of every input, ONE first."""

    @property
    def n_inputs(self) -> int:
        """Inputs of the circuit, ONE included."""
        return len(self.ic)


@dataclass(frozen=True)
class QueryLengths:
    """Points in each query."""

    h: int
    l: int  # noqa: E741
    a: int
    b_g1: int
    b_g2: int

    def of(self, name: str) -> int:
        """The length of the query `name`."""
        length: int = getattr(self, name)
        return length

    @property
    def n_bytes(self) -> int:
        """What all points take, in a file as well as in rows."""
        return sum(self.of(name) * uncompressed_size(curve) for name, curve in QUERIES.items())

    def __str__(self) -> str:
        return ", ".join(f"{f.name} {getattr(self, f.name):,}" for f in fields(self))


class ProvingKey(Protocol):
    """The queries of a circuit, wherever they lie."""

    @property
    def vk(self) -> VerifyingKey: ...

    @property
    def lengths(self) -> QueryLengths: ...

    def query(self, name: str, start: int, stop: int, device: torch.device | str) -> torch.Tensor:
        """Points `start` to `stop` of a query: affine rows in Montgomery form, on `device`."""
        ...

    def pieces(self, name: str, step: int, device: torch.device | str) -> Iterator[Piece]:
        """All points of a query in order, `step` at a time: (start, stop, rows on `device`).

        Rows are good for the current stream, and until the next piece is asked for: where the
        points lie elsewhere, the next piece is on its way while the caller works on this one, and
        two pieces are on the device. A loop that ends early closes the iterator.
        """
        ...

    def parts(
        self, order: Sequence[Part], device: torch.device | str, slots: int
    ) -> AbstractContextManager[Parts]:
        """Parts of any queries in the order in which they are going to be taken.

        Where the points lie elsewhere, the first `slots` of them set out at once, into buffers as
        long as the longest part, and each of the others once a buffer is free. What goes wrong
        on the way is raised by the `take` of that part; leaving the context ends the rest.
        """
        ...


@dataclass(frozen=True)
class MemoryKey:
    """A proving key held as rows: affine, in Montgomery form, none at infinity."""

    vk: VerifyingKey
    queries: Mapping[str, torch.Tensor]
    """The rows of every query of `QUERIES`."""

    def __post_init__(self) -> None:
        if self.queries.keys() != QUERIES.keys():
            raise LayoutError(f"a key has {list(QUERIES)}, got {list(self.queries)}")
        for name, curve in QUERIES.items():
            check_rows(self.queries[name], curve)

    @property
    def lengths(self) -> QueryLengths:
        """Points in each query."""
        return QueryLengths(**{name: len(rows) for name, rows in self.queries.items()})

    def query(self, name: str, start: int, stop: int, device: torch.device | str) -> torch.Tensor:
        """As `ProvingKey.query`; a view where the rows already lie on `device`."""
        check_range(self.lengths, name, start, stop)
        return self.queries[name][start:stop].to(device)

    def pieces(self, name: str, step: int, device: torch.device | str) -> Iterator[Piece]:
        """As `ProvingKey.pieces`; views where the rows already lie on `device`."""
        for start, stop in steps(self.lengths.of(name), step):
            yield start, stop, self.query(name, start, stop, device)

    def parts(
        self, order: Sequence[Part], device: torch.device | str, slots: int
    ) -> AbstractContextManager[Parts]:
        """As `ProvingKey.parts`; views where the rows already lie on `device`."""
        return nullcontext(PartsHere(self, order, device))


class PartsHere:
    """Parts that take no time, in the order given: what a key's `query` has of them."""

    here = True

    def __init__(self, key: ProvingKey, order: Sequence[Part], device: torch.device | str) -> None:
        self._rows = (key.query(part.query, part.start, part.stop, device) for part in order)

    def widen(self, slots: int) -> None:
        """There is nothing to widen."""

    def take(self) -> torch.Tensor:
        """As `Parts.take`; raises `LayoutError` after the last."""
        for rows in self._rows:
            return rows
        raise LayoutError("no part of the key is left to take")


Placed = tuple[str, int, torch.Tensor]
"""Points of a query: its name, the first of them, and their rows."""


def held(
    key: ProvingKey,
    device: torch.device,
    advance: Callable[[float], None] = lambda fraction: None,
) -> MemoryKey:
    """All points of a key on `device`, ready for any stream; `advance` and errors as `placed`."""
    return filled(key.vk, key.lengths, device, placed(key, device, advance))


def filled(
    vk: VerifyingKey, lengths: QueryLengths, device: torch.device, pieces: Iterable[Placed]
) -> MemoryKey:
    """A key on `device`, ready for any stream, of pieces that are all its points together."""
    queries = {
        name: torch.empty(lengths.of(name), *curve.row_shape, dtype=torch.int32, device=device)
        for name, curve in QUERIES.items()
    }
    for name, start, rows in pieces:
        queries[name][start : start + len(rows)] = rows
    Mark.here(device).wait()
    return MemoryKey(vk, queries)


def placed(
    key: ProvingKey, device: torch.device, advance: Callable[[float], None]
) -> Iterator[Placed]:
    """All points of a key, on `device`; errors as its `pieces`.

    Args:
        advance: Gets the fraction of the points that were there.
    """
    done, total = 0, sum(key.lengths.of(name) for name in QUERIES)
    for name in QUERIES:
        for start, stop, rows in key.pieces(name, _POINTS_AT_ONCE, device):
            yield name, start, rows
            advance((done + stop) / total)
        done += key.lengths.of(name)


def check_range(lengths: QueryLengths, name: str, start: int, stop: int) -> None:
    """Raise `LayoutError` unless 0 <= start <= stop <= the query's length."""
    if not 0 <= start <= stop <= lengths.of(name):
        raise LayoutError(f"query {name} has {lengths.of(name)} points, asked {start}..{stop}")


def shapes_of(lengths: QueryLengths, order: Sequence[Part]) -> list[tuple[int, ...]]:
    """Of the rows of every part; raises `LayoutError` as `check_range`."""
    for part in order:
        check_range(lengths, part.query, part.start, part.stop)
    return [(part.stop - part.start, *QUERIES[part.query].row_shape) for part in order]


def check_lengths(
    key: ProvingKey, expected: QueryLengths, n_inputs: int, circuit_name: str, name: str = "this"
) -> None:
    """Raise `KeyFileError` unless the key fits the circuit of that name.

    Args:
        expected: Lengths that follow from the circuit (spec/groth16.md section 4).
        n_inputs: Inputs of the circuit, ONE included.
        name: What the message calls the key, such as its file.
    """
    if key.lengths != expected or key.vk.n_inputs != n_inputs:
        raise KeyFileError(
            f"{name} is the key of another circuit than {circuit_name}: "
            f"the circuit needs ic {n_inputs:,}, {expected}; "
            f"the key has ic {key.vk.n_inputs:,}, {key.lengths}"
        )
