"""Values of the layouts that serde writes, and plain writers of them, apart from our readers."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

from torchzk.circuits.layouts import (
    Element,
    Integer,
    Integers,
    Layout,
    Nothing,
    Octets,
    Sequence,
    Struct,
    Template,
    Variant,
)
from torchzk.circuits.porep_shapes import StackedShape
from torchzk.circuits.post_shapes import PostShape
from torchzk.circuits.registered import PostKind
from torchzk.circuits.sectors import SectorShape, TreeShape
from torchzk.circuits.update_shapes import UpdateShape

SMALL = SectorShape(2048, "2KiB", TreeShape(1, 0, 0))
"""A registered size with the smallest tree, so that inputs are short and runs many."""
LARGE = SectorShape(64 << 30, "64GiB", TreeShape(1, 8, 2))
"""One whose tree has all three parts."""
UPDATE = UpdateShape(SMALL, 2, n_challenges=1, n_apex_leaves=2, hs=(1,) * 6, h=1)


def porep(sector: SectorShape) -> StackedShape:
    return StackedShape(sector, layers=1, n_challenges=1, n_partitions=1, ni_partitions=2)


def post(kind: PostKind, sector: SectorShape) -> PostShape:
    """Of one path a sector, or two."""
    return PostShape(kind, sector, n_slots=2, n_challenges=1)


def element(rng: Random) -> list[int]:
    """32 bytes, most of them short in JSON."""
    return [*(0 for _ in range(30)), rng.randrange(256), rng.randrange(1, 10)]


def example(layout: Layout, rng: Random) -> Any:
    """A value of a layout as parsed JSON."""
    match layout:
        case Element():
            return element(rng)
        case Integer(_, bound):
            return rng.randrange(bound)
        case Nothing():
            return None
        case Sequence(item, count):
            return [example(item, rng) for _ in range(count)]
        case Struct(fields):
            return {name: example(item, rng) for name, item in fields}
        case Variant(name, _, item):
            return {name: example(item, rng)}


def bincode(layout: Layout, value: Any) -> bytes:
    """The same as bincode."""
    match layout:
        case Element():
            return bytes(value)
        case Integer(size, _):
            return int(value).to_bytes(size, "little")
        case Nothing():
            return b""
        case Sequence(item, count):
            return count.to_bytes(8, "little") + b"".join(bincode(item, x) for x in value)
        case Struct(fields):
            return b"".join(bincode(item, value[name]) for name, item in fields)
        case Variant(name, number, item):
            return number.to_bytes(4, "little") + bincode(item, value[name])


def leaves(layout: Layout, value: Any) -> Iterator[list[int] | int]:
    """Elements and integers of a value, in the order of the layout; `KeyError` and the like where
    the value is not of it."""
    match layout:
        case Element():
            # a boolean is an integer to Python
            assert all(type(octet) is int for octet in value)
            yield value
        case Integer():
            assert type(value) is int
            yield value
        case Sequence(item, count):
            assert len(value) == count
            for x in value:
                yield from leaves(item, x)
        case Struct(fields):
            assert len(value) == len(fields)
            for name, item in fields:
                yield from leaves(item, value[name])
        case Variant(name, _, item):
            assert len(value) == 1
            yield from leaves(item, value[name])


def check_bincode(known: Template, raw: bytes, elements: Octets, integers: Integers) -> None:
    """What was read of bincode is what stands in the places of the layout."""
    for at, element_read in zip(known.element_offsets, elements, strict=True):
        assert raw[at : at + 32] == element_read.tobytes()
    for (at, size), integer in zip(known.integer_offsets, integers.tolist(), strict=True):
        assert int.from_bytes(raw[at : at + size], "little") == integer
    for fixed in known.constants:
        said = raw[fixed.offset : fixed.offset + fixed.size]
        assert int.from_bytes(said, "little") == fixed.value
