"""The SHA-256 of a whole constraint system, streamed copy by copy.

A row is A, B, C; each is a u32 count and then, a term, one byte 0 for an input or 1 for aux, the
u32 index and the coefficient in 32 bytes, all little-endian. Copies differ in indices alone, so
one copy's bytes are made once and its indices moved on; only where imports stand beside other
aux of the prologue may terms change their order too. Source: spec/vectors.md section 2.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from torchzk.groth16.r1cs import Array, Block, R1cs, SparseRows

# rows of the prologue that are encoded at once
_ROWS = 1 << 20
_COUNT_BYTES = 4
_TERM_BYTES = 1 + 4 + 32
_INPUT_ROW_BYTES = 3 * _COUNT_BYTES + _TERM_BYTES


@dataclass(frozen=True)
class R1csDigest:
    """Hexadecimal digests of one system."""

    synthesised: str
    """Over the constraints of the circuit."""
    with_input_rows: str
    """The same with the appended rows `input_i | 0 | 0`."""


def digest(r1cs: R1cs) -> R1csDigest:
    """Both digests of a system.

    Takes no more memory than a copy's bytes, some 350 a constraint.
    """
    state = hashlib.sha256()
    for piece in _pieces(r1cs):
        state.update(piece.raw.data)
    synthesised = state.hexdigest()
    state.update(_input_rows(r1cs.n_inputs))
    return R1csDigest(synthesised, state.hexdigest())


def run_digests(r1cs: R1cs, run: int) -> Iterator[str]:
    """The digest of each `run` synthesised constraints, the last run shorter.

    The first that is not as expected tells where two systems begin to differ.
    """
    state, room = hashlib.sha256(), run
    for piece in _pieces(r1cs):
        row, end = 0, piece.starts.shape[0] - 1
        while row < end:
            stop = min(row + room, end)
            state.update(piece.raw[piece.starts[row] : piece.starts[stop]].data)
            room -= stop - row
            row = stop
            if room == 0:
                yield state.hexdigest()
                state, room = hashlib.sha256(), run
    if room < run:
        yield state.hexdigest()


@dataclass(frozen=True, eq=False)
class _Piece:
    """The bytes of one copy of a block, to be used before the next is asked for."""

    raw: Array
    """uint8"""
    starts: Array
    """int64 `[m + 1]`: where each row starts in `raw`."""


def _pieces(r1cs: R1cs) -> Iterator[_Piece]:
    for start in range(0, r1cs.prologue.n_constraints, _ROWS):
        yield _Encoder(_some_rows(r1cs.prologue, start, start + _ROWS)).piece
    if r1cs.copies:
        yield from _Encoder(r1cs.block).copies(r1cs.imports)


def _some_rows(block: Block, start: int, stop: int) -> Block:
    """Rows `start` to `stop` of a block, or to its end."""

    def cut(rows: SparseRows) -> SparseRows:
        starts = rows.starts[start : stop + 1]
        terms = slice(starts[0], starts[-1])
        return SparseRows(starts - starts[0], rows.cols[terms], rows.coefficients[terms])

    a, b, c = (cut(rows) for rows in block.matrices)
    return replace(block, n_constraints=a.starts.shape[0] - 1, a=a, b=b, c=c)


class _Encoder:
    """The bytes of a block, as copy 0 has them but for its imports, and what moves in them."""

    def __init__(self, block: Block) -> None:
        starts, at = _layout(block)
        data = np.zeros(starts[-1], dtype=np.uint8)
        self.piece = _Piece(data, starts)
        self._words = words = _words_at_any_byte(data)
        self._coefficients = np.frombuffer(
            b"".join(k.to_bytes(32, "little") for k in block.table), dtype="<u4"
        ).reshape(-1, 8)
        moving, values, strides = [], [], []
        self._with_imports: list[_ImportRows] = []
        for rows, (counts_at, terms_at) in zip(block.matrices, at, strict=True):
            words[counts_at] = np.diff(rows.starts)
            is_aux = rows.cols >= block.input_columns
            index = np.where(is_aux, rows.cols - block.input_columns, rows.cols)
            n_others = np.where(is_aux, block.n_shared_aux + block.n_imports, block.n_shared_inputs)
            own = index >= n_others
            # in the whole system imports are not numbered again
            index[is_aux & own] -= block.n_imports
            data[terms_at] = is_aux
            words[terms_at + 1] = index
            self._write_coefficients(terms_at, rows.coefficients)
            moving.append(terms_at[own] + 1)
            values.append(index[own])
            strides.append(np.where(is_aux, block.n_aux, block.n_inputs)[own])
            if block.n_imports:
                self._with_imports.append(_ImportRows.of(block, rows, index, terms_at))
        self._places = np.concatenate(moving)
        self._index = np.concatenate(values).astype(np.uint32)
        self._stride = np.concatenate(strides).astype(np.uint32)

    def copies(self, imports: Array) -> Iterator[_Piece]:
        """The bytes of each copy in turn, in one buffer, given what each imports."""
        for own_imports in imports:
            self._words[self._places] = self._index
            for rows in self._with_imports:
                index, order = rows.sorted(own_imports)
                self._words[rows.terms_at + 1] = index[order]
                self._write_coefficients(rows.terms_at, rows.coefficients[order])
            yield self.piece
            self._index += self._stride

    def _write_coefficients(self, terms_at: Array, ids: Array) -> None:
        for j in range(self._coefficients.shape[1]):
            self._words[terms_at + 5 + 4 * j] = self._coefficients[ids, j]


@dataclass(frozen=True, eq=False)
class _ImportRows:
    """The prologue's aux, imported ones among them, in the rows of one matrix that import any."""

    rows: Array
    """int64: the row of each term, ascending."""
    index: Array
    """int64: the term's aux, or -1 if it is imported."""
    imported: Array
    """int64: the term's place among the imports, or -1."""
    coefficients: Array
    terms_at: Array
    """int64: where the term is in the bytes. In a row these terms follow each other."""

    @classmethod
    def of(cls, block: Block, rows: SparseRows, index: Array, terms_at: Array) -> _ImportRows:
        imported = rows.cols - block.import_columns.start
        is_import = (imported >= 0) & (imported < block.n_imports)
        row = np.repeat(np.arange(block.n_constraints), np.diff(rows.starts))
        with_imports = np.zeros(block.n_constraints, dtype=np.bool_)
        with_imports[row[is_import]] = True
        of_prologue = (rows.cols >= block.input_columns) & (imported < block.n_imports)
        chosen = np.flatnonzero(of_prologue & with_imports[row])
        return cls(
            rows=row[chosen],
            index=np.where(is_import, -1, index)[chosen].astype(np.int64),
            imported=np.where(is_import, imported, -1)[chosen].astype(np.int64),
            coefficients=rows.coefficients[chosen],
            terms_at=terms_at[chosen],
        )

    def sorted(self, own_imports: Array) -> tuple[Array, Array]:
        """Each term's aux for a copy, and the order in which they ascend within each row."""
        index = np.where(self.imported < 0, self.index, own_imports[self.imported])
        return index, np.lexsort((index, self.rows))


def _layout(block: Block) -> tuple[Array, list[tuple[Array, Array]]]:
    """Where each row starts; and for A, B and C where the counts and the terms are."""
    n_terms = [np.diff(rows.starts) for rows in block.matrices]
    sizes = [_COUNT_BYTES + _TERM_BYTES * n for n in n_terms]
    starts = np.zeros(block.n_constraints + 1, dtype=np.int64)
    np.cumsum(sum(sizes), out=starts[1:])
    at = []
    counts_at = starts[:-1]
    for rows, n, size in zip(block.matrices, n_terms, sizes, strict=True):
        place_in_row = np.arange(rows.nnz) - np.repeat(rows.starts[:-1], n)
        terms_at = np.repeat(counts_at + _COUNT_BYTES, n) + _TERM_BYTES * place_in_row
        at.append((counts_at, terms_at))
        counts_at = counts_at + size
    return starts, at


def _words_at_any_byte(data: Array) -> Array:
    """The little-endian u32 that begins at each byte of `data`, as a view to write through."""
    n = max(data.shape[0] - 3, 0)
    return np.ndarray((n,), dtype="<u4", buffer=data, strides=(1,))


def _input_rows(n_inputs: int) -> bytes:
    rows = np.zeros((n_inputs, _INPUT_ROW_BYTES), dtype=np.uint8)
    # one term: kind 0, the index, coefficient 1
    rows[:, 0] = 1
    rows[:, 5:9] = np.arange(n_inputs, dtype="<u4")[:, None].view(np.uint8)
    rows[:, 9] = 1
    return rows.tobytes()
