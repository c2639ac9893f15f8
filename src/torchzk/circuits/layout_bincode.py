"""Bincode of a layout: many values of one fixed size, taken apart by a few vector operations."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NoReturn

import numpy as np
import numpy.typing as npt

from torchzk.circuits.bincode import Reader
from torchzk.circuits.layouts import (
    ELEMENT_BYTES,
    Constant,
    Integers,
    Layout,
    Octets,
    Places,
    Template,
    Values,
    template,
)

_INTEGER_BYTES = 8


def read_values(reader: Reader, layout: Layout, names: Sequence[str]) -> Values:
    """Some values of a layout, one behind the other.

    Nothing is allocated for bytes that are not there.

    Args:
        reader: Where they begin.
        layout: What they are.
        names: What errors call them; empty for one that is all there is.

    Raises:
        InputError: The bytes are something else; names the first wrong field.
    """
    known = template(layout)
    start, size = reader.position, known.n_bytes
    count = len(names)
    n_there = min(reader.left, count * size)
    there = np.frombuffer(reader.take(n_there, names[0]), dtype=np.uint8)
    rows = np.zeros((-(-n_there // size), size), dtype=np.uint8)
    rows.reshape(-1)[:n_there] = there
    where = _Where(reader, start, size, names)
    _check_constants(rows, n_there, known, where)
    if n_there < count * size:
        row = n_there // size
        reader.position = start + row * size
        reader.fail(names[row] or "value", f"needs {size} bytes, {reader.left} are left")
    # numbers of four bytes get four zeros
    padded = np.zeros((count, len(known.bounds), _INTEGER_BYTES), dtype=np.uint8)
    for width, which, places in _integer_places(layout):
        padded[:, which, :width] = rows[:, places]
    integers = padded.view("<u8")[..., 0]
    _check_bounds(integers, known, where)
    elements = rows[:, _element_places(layout)]
    return Values(elements, integers.astype(np.int64))


class _Where:
    """Turns a place among the values into the reader's error."""

    def __init__(self, reader: Reader, start: int, size: int, names: Sequence[str]) -> None:
        self._reader, self._start, self._size, self._names = reader, start, size, names

    def fail(self, row: int, offset: int, what: str, problem: str) -> NoReturn:
        self._reader.position = self._start + row * self._size + offset
        self._reader.inside = self._names[row]
        self._reader.fail(what, problem)


def _check_constants(rows: Octets, n_there: int, known: Template, where: _Where) -> None:
    places = np.concatenate([np.arange(c.offset, c.offset + c.size) for c in known.constants])
    expected = b"".join(c.value.to_bytes(c.size, "little") for c in known.constants)
    wrong = rows[:, places] != np.frombuffer(expected, dtype=np.uint8)
    # the last row may be cut short
    wrong[-1:] &= places + (len(rows) - 1) * known.n_bytes < n_there
    if not wrong.any():
        return
    row, place = divmod(int(wrong.argmax()), len(places))
    offset = int(places[place])
    constant = next(c for c in reversed(known.constants) if c.offset <= offset)
    raw = rows[row, constant.offset : constant.offset + constant.size].tobytes()
    where.fail(
        row, constant.offset, constant.name, _difference(constant, int.from_bytes(raw, "little"))
    )


def _difference(constant: Constant, got: int) -> str:
    if constant.variant:
        return f"must be variant {constant.value} ({constant.variant}), is {got}"
    return f"must have {constant.value} elements, says {got}"


def _check_bounds(integers: npt.NDArray[np.uint64], known: Template, where: _Where) -> None:
    wrong = integers >= known.bounds.astype(np.uint64)
    if wrong.any():
        row, k = divmod(int(wrong.argmax()), len(known.bounds))
        bound, got = int(known.bounds[k]), int(integers[row, k])
        offset, _ = known.integer_offsets[k]
        where.fail(row, offset, known.integer_names[k], f"must be below {bound}, is {got}")


@lru_cache(maxsize=16)
def _element_places(layout: Layout) -> Places:
    """Where the bytes of each element are, `[n, 32]`."""
    offsets = np.array(template(layout).element_offsets, dtype=np.intp)
    return offsets[:, None] + np.arange(ELEMENT_BYTES)


@lru_cache(maxsize=16)
def _integer_places(layout: Layout) -> tuple[tuple[int, Integers, Places], ...]:
    """For each width in bytes: which integers have it, and where their bytes are, `[m, width]`."""
    offsets, sizes = np.array(template(layout).integer_offsets, dtype=np.int64).T
    out = []
    for width in sorted(set(sizes.tolist())):
        which = np.flatnonzero(sizes == width)
        out.append((int(width), which, offsets[which, None] + np.arange(width)))
    return tuple(out)
