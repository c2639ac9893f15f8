"""The SHA-256 of a whole constraint system, streamed copy by copy.

A row is A, B, C; each is a u32 count and then, a term, one byte 0 for an input or 1 for aux, the
u32 index and the coefficient in 32 bytes, all little-endian. Copies differ in indices alone, so
one copy's bytes are made once and its indices moved on. Source: spec/vectors.md section 2.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from torchzk.groth16.r1cs import Array, Block, R1cs

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


def digest(r1cs: R1cs, progress: Callable[[float], None] = lambda fraction: None) -> R1csDigest:
    """Both digests of a system; tells `progress` the fraction done.

    Takes no more memory than a copy's bytes, some 350 a constraint.
    """
    state = hashlib.sha256()
    rows = 0
    for piece in _pieces(r1cs):
        state.update(piece.raw.data)
        rows += piece.starts.shape[0] - 1
        progress(rows / r1cs.n_constraints)
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
    yield from _copies(r1cs.prologue, 1)
    yield from _copies(r1cs.block, r1cs.copies)


def _copies(block: Block, copies: int) -> Iterator[_Piece]:
    """The bytes of each copy in turn, in one buffer."""
    starts, at = _layout(block)
    data = np.zeros(starts[-1], dtype=np.uint8)
    words = _words_at_any_byte(data)
    table = np.frombuffer(b"".join(k.to_bytes(32, "little") for k in block.table), dtype=np.uint8)
    coefficients = table.reshape(-1, 32)
    moving, values, strides = [], [], []
    for rows, (counts_at, terms_at) in zip(block.matrices, at, strict=True):
        words[counts_at] = np.diff(rows.starts)
        is_aux = rows.cols >= block.input_columns
        own_index = np.where(is_aux, rows.cols - block.input_columns, rows.cols)
        data[terms_at] = is_aux
        words[terms_at + 1] = own_index
        data[terms_at[:, None] + np.arange(5, _TERM_BYTES)] = coefficients[rows.coefficients]
        own = own_index >= np.where(is_aux, block.n_shared_aux, block.n_shared_inputs)
        moving.append(terms_at[own] + 1)
        values.append(own_index[own])
        strides.append(np.where(is_aux, block.n_aux, block.n_inputs)[own])
    places = np.concatenate(moving)
    index = np.concatenate(values).astype(np.uint32)
    stride = np.concatenate(strides).astype(np.uint32)
    for _ in range(copies):
        words[places] = index
        yield _Piece(data, starts)
        index += stride


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
