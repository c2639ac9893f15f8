"""Layouts of serialised proofs as data, and what every reader of one needs to know of it.

A layout says once what serde writes: which fields, how many items, which enum variant. All of it
is fixed by the circuit, so that a value of a layout is 32-byte elements and small integers in a
fixed order, whatever it was written in. Source: spec/porep.md section 8.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from operator import itemgetter
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from torchzk.circuits.sectors import TreeShape
from torchzk.params.fields import FR, split

ELEMENT_BYTES = 32
VARIANTS = ("Single", "Sub", "Top")
"""Variants of a Merkle proof, by their number: the parts of its path beyond the first."""
PATH_NAMES = ("base_proof", "sub_proof", "top_proof")
"""What the parts of a path are called where there are several."""
Octets = npt.NDArray[np.uint8]
Integers = npt.NDArray[np.int64]
Places = npt.NDArray[np.intp]


@dataclass(frozen=True)
class Element:
    """32 bytes: a canonical little-endian Fr."""


@dataclass(frozen=True)
class Integer:
    """An unsigned integer of `size` bytes, below `bound`."""

    size: int
    bound: int


@dataclass(frozen=True)
class Nothing:
    """A phantom marker: null in JSON, no byte in bincode."""


@dataclass(frozen=True)
class Sequence:
    """`count` items of one layout."""

    item: Layout
    count: int


@dataclass(frozen=True)
class Struct:
    """Fields in the order of their declaration."""

    fields: tuple[tuple[str, Layout], ...]


@dataclass(frozen=True)
class Variant:
    """One variant of an enum, by its name and number."""

    name: str
    number: int
    item: Layout


Layout = Element | Integer | Nothing | Sequence | Struct | Variant
ELEMENT = Element()


@dataclass(frozen=True)
class Values:
    """What one value of a layout holds, or many, in order."""

    elements: Octets
    """uint8 `[*batch, n, 32]`"""
    integers: Integers
    """int64 `[*batch, m]`"""


class Part(NamedTuple):
    """Where the values of a part of a layout are among those of the whole."""

    elements: slice
    integers: slice


class Constant(NamedTuple):
    """Bytes of bincode that the layout fixes: a count, or the number of a variant."""

    name: str
    offset: int
    size: int
    value: int
    variant: str = ""
    """The variant's name; empty for a count."""


@dataclass(frozen=True)
class Template:
    """A layout taken apart. Names are dotted paths such as `c_x.column.rows[0]`."""

    skeleton: Octets
    """The compact JSON text, with one digit 0 for every number."""
    is_integer: npt.NDArray[np.bool_]
    """For every number in the text whether it is an integer rather than a byte of an element."""
    element_names: tuple[str, ...]
    integer_names: tuple[str, ...]
    bounds: Integers
    """What each integer is below."""
    element_offsets: tuple[int, ...]
    """Where in the bincode each element is."""
    integer_offsets: tuple[tuple[int, int], ...]
    """Where in the bincode each integer is, and its size in bytes."""
    constants: tuple[Constant, ...]
    n_bytes: int
    """Of the bincode."""
    parts: dict[str, Part]
    """The part of every name."""


def merkle_proof(tree: TreeShape | None, binary_levels: int = 0) -> Struct:
    """A Merkle proof in a Poseidon tree, or in a binary one of so many levels."""
    if tree is None:
        return _single((2,) * binary_levels)
    first, *upper = tree.parts
    if not upper:
        return _single(first)
    paths: tuple[tuple[str, Layout], ...] = tuple(
        (name, _path(part)) for name, part in zip(PATH_NAMES, tree.parts, strict=False)
    )
    fields = (*paths, ("root", ELEMENT), ("leaf", ELEMENT))
    variant = Variant(VARIANTS[len(upper)], len(upper), Struct(fields))
    return Struct((("data", variant),))


def _single(arities: tuple[int, ...]) -> Struct:
    fields = (("root", ELEMENT), ("leaf", ELEMENT), ("path", _path(arities)))
    return Struct((("data", Variant(VARIANTS[0], 0, Struct(fields))),))


def _path(arities: tuple[int, ...]) -> Struct:
    """Levels may differ in arity between the parts of a proof, not inside one."""
    (arity,) = set(arities)
    hashes = Sequence(ELEMENT, arity - 1)
    level = Struct((("hashes", hashes), ("index", Integer(8, arity))))
    return Struct((("path", Sequence(level, len(arities))),))


def sorted_by_key(layout: Layout) -> Layout:
    """The layout that JSON has where keys are sorted."""
    match layout:
        case Struct(fields):
            return Struct(
                tuple(sorted(((k, sorted_by_key(f)) for k, f in fields), key=itemgetter(0)))
            )
        case Sequence(item, count):
            return Sequence(sorted_by_key(item), count)
        case Variant(name, number, item):
            return Variant(name, number, sorted_by_key(item))
    return layout


@lru_cache(maxsize=16)
def template(layout: Layout) -> Template:
    """The template of a layout, made once."""
    builder = _Builder()
    builder.add(layout, "")
    return builder.template()


def not_canonical(elements: Octets) -> int | None:
    """Flat index of the first of some elements `[*batch, 32]` that is r or more."""
    words = np.ascontiguousarray(elements).view("<u8").reshape(-1, 4)
    below = np.zeros(len(words), dtype=np.bool_)
    for i, word in enumerate(split(FR.modulus, 4, 64)):
        x = words[:, i]
        below = (x < word) | ((x == word) & below)
    return None if below.all() else int(below.argmin())


class _Builder:
    def __init__(self) -> None:
        self._text: list[bytes] = []
        self._is_integer: list[npt.NDArray[np.bool_]] = []
        self._elements: list[tuple[str, int]] = []
        self._integers: list[tuple[str, int, int, int]] = []
        self._constants: list[Constant] = []
        self._n_bytes = 0
        self._parts: dict[str, Part] = {}

    def add(self, layout: Layout, name: str) -> None:
        elements, integers = len(self._elements), len(self._integers)
        match layout:
            case Element():
                self._elements.append((name, self._take(ELEMENT_BYTES)))
                self._text.append(b"[" + b",".join([b"0"] * ELEMENT_BYTES) + b"]")
                self._is_integer.append(np.zeros(ELEMENT_BYTES, dtype=np.bool_))
            case Integer(size, bound):
                self._integers.append((name, bound, self._take(size), size))
                self._text.append(b"0")
                self._is_integer.append(np.ones(1, dtype=np.bool_))
            case Nothing():
                self._text.append(b"null")
            case Sequence(item, count):
                self._constants.append(Constant(name, self._take(8), 8, count))
                for i in range(count):
                    self._text.append(b"," if i else b"[")
                    self.add(item, f"{name}[{i}]")
                self._text.append(b"]")
            case Struct(fields):
                for i, (key, field) in enumerate(fields):
                    self._text.append(b'%s"%s":' % (b"," if i else b"{", key.encode()))
                    self.add(field, f"{name}.{key}" if name else key)
                self._text.append(b"}")
            case Variant(variant, number, item):
                self._constants.append(Constant(name, self._take(4), 4, number, variant))
                self._text.append(b'{"%s":' % variant.encode())
                self.add(item, f"{name}.{variant}")
                self._text.append(b"}")
        self._parts[name] = Part(
            slice(elements, len(self._elements)), slice(integers, len(self._integers))
        )

    def _take(self, size: int) -> int:
        self._n_bytes += size
        return self._n_bytes - size

    def template(self) -> Template:
        names, bounds, offsets, sizes = zip(*self._integers, strict=True)
        return Template(
            skeleton=np.frombuffer(b"".join(self._text), dtype=np.uint8),
            is_integer=np.concatenate(self._is_integer),
            element_names=tuple(name for name, _ in self._elements),
            integer_names=names,
            bounds=np.array(bounds, dtype=np.int64),
            element_offsets=tuple(offset for _, offset in self._elements),
            integer_offsets=tuple(zip(offsets, sizes, strict=True)),
            constants=tuple(self._constants),
            n_bytes=self._n_bytes,
            parts=self._parts,
        )
