"""JSON of a layout, read in two ways that give the same values.

`read_values` walks parsed JSON and names the place of every fault. It is slow where a file holds
ten million numbers, so `cut_values` finds values in the compact text that serde writes with a few
vector operations, and leaves a document that refers to them. What it does not recognise stays in
the document for `read_values`. `read_text` is both, for a document with such values.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TypeVar

import numpy as np

from torchzk.circuits.json_input import Node, parse_json, show
from torchzk.circuits.layouts import (
    ELEMENT_BYTES,
    Element,
    Integer,
    Layout,
    Nothing,
    Places,
    Sequence,
    Struct,
    Template,
    Values,
    Variant,
    sorted_by_key,
    template,
)
from torchzk.errors import InputError

_T = TypeVar("_T")

_ZERO = ord("0")
_BYTE_DIGITS = 3
# so many fit 64 bits
_INTEGER_DIGITS = 18
_MORE_DIGITS = _INTEGER_DIGITS - 1
_THREADS = 8
_REFERENCE = "value of the text, number"
"""What strings say that stand for values."""


@dataclass
class Cut:
    """Values cut out of a text; each is referred to once, in order."""

    values: list[Values] = field(default_factory=list)
    places: list[tuple[int, int]] = field(default_factory=list)
    """Where in the text each began and ended."""
    taken: int = 0

    def refers(self, value: object) -> bool:
        """Whether `value` is the string that stands for the next values."""
        return (
            self.taken < len(self.values)
            and isinstance(value, str)
            and value.rstrip(" ") == _reference(self.taken)
        )

    def take(self, reference: object) -> Values | None:
        """The next values, if `reference` is the string that stands for them."""
        if not self.refers(reference):
            return None
        self.taken += 1
        return self.values[self.taken - 1]


def read_text(data: bytes, document: str, layout: Layout, read: Callable[[Node, Cut], _T]) -> _T:
    """What `read` makes of the root of a JSON text, and of the values that were cut out of it.

    Args:
        data: UTF-8 text.
        document: What errors call it.
        layout: Of the values.
        read: Reads the document, its values by `read_values`.

    Raises:
        InputError: As `parse_json` and `read`.
    """
    text, cut = cut_values(data, layout)
    try:
        root = parse_json(text, document)
    except InputError:
        # once more with all else where it was, for line and column
        root = parse_json(_replaced(data, cut, padded=True), document)
    try:
        return read(root, cut)
    except InputError as e:
        if _REFERENCE not in str(e):
            raise
    # the whole text has the same fault, in its own words
    return read(parse_json(data, document), Cut())


def read_values(node: Node, layout: Layout, cut: Cut) -> Values:
    """The values of parsed JSON.

    Args:
        node: Where the layout's value is, or a reference to one that was cut out.
        layout: What it must be.
        cut: What `cut_values` found in the text.

    Raises:
        InputError: It is something else; names the place.
    """
    taken = cut.take(node.value)
    if taken is not None:
        return taken
    sink = _Sink()
    sink.read(node, layout)
    elements = np.frombuffer(sink.elements, dtype=np.uint8).reshape(-1, ELEMENT_BYTES)
    return Values(elements, np.array(sink.integers, dtype=np.int64))


@dataclass
class _Sink:
    elements: bytearray = field(default_factory=bytearray)
    integers: list[int] = field(default_factory=list)

    def read(self, node: Node, layout: Layout) -> None:
        match layout:
            case Element():
                self.elements += node.bytes32()
            case Integer(_, bound):
                self.integers.append(node.integer(bound - 1))
            case Nothing():
                if node.value is not None:
                    node.fail(f"must be null, is {show(node.value)}")
            case Sequence(Element(), count):
                self.elements += node.many_bytes32(count)
            case Sequence(item, count):
                for child in node.items(count):
                    self.read(child, item)
            case Struct(fields):
                children = node.fields(name for name, _ in fields)
                for name, item in fields:
                    self.read(children[name], item)
            case Variant(name, _, item):
                self.read(node.fields((name,))[name], item)


def cut_values(data: bytes, layout: Layout) -> tuple[bytes, Cut]:
    """The text without the compact values of `layout` that are in it, and these.

    Keys may be in the order of the layout, or sorted. In the values' place are strings that
    `read_values` knows. Whatever `data` is, reading the result as JSON and then as values is
    reading `data` so, but for what an error says of a place in the text, or of such a string.
    """
    for written in (layout, sorted_by_key(layout)):
        text, cut = _cut_as_written(data, layout, written)
        if cut.values:
            return text, cut
    return data, Cut()


def _cut_as_written(data: bytes, layout: Layout, written: Layout) -> tuple[bytes, Cut]:
    known = template(written)
    places = list(_candidates(data, known))
    # vector operations let other threads run
    with ThreadPoolExecutor(_THREADS) as pool:
        found = list(pool.map(lambda at: _compact_values(data[slice(*at)], known), places))
    cut = Cut()
    for at, values in zip(places, found, strict=True):
        if values is None:
            continue
        if written != layout:
            elements, integers = _places(layout, written)
            values = Values(values.elements[elements], values.integers[integers])
        cut.values.append(values)
        cut.places.append(at)
    return _replaced(data, cut), cut


def _replaced(data: bytes, cut: Cut, *, padded: bool = False) -> bytes:
    """A text with strings that stand for what was cut out of it, `padded` as long as that was."""
    rest: list[bytes] = []
    end = 0
    for number, (start, stop) in enumerate(cut.places):
        said = _reference(number).encode()
        rest += [data[end:start], b'"%s"' % (said.ljust(stop - start - 2) if padded else said)]
        end = stop
    return b"".join((*rest, data[end:]))


@lru_cache(maxsize=16)
def _places(layout: Layout, written: Layout) -> tuple[Places, Places]:
    """Where in a value as written the elements and the integers of the layout are."""
    wanted, known = template(layout), template(written)
    return (
        _order(wanted.element_names, known.element_names),
        _order(wanted.integer_names, known.integer_names),
    )


def _order(wanted: tuple[str, ...], known: tuple[str, ...]) -> Places:
    place = {name: i for i, name in enumerate(known)}
    return np.array([place[name] for name in wanted], dtype=np.intp)


def _reference(number: int) -> str:
    return f"{_REFERENCE} {number}"


def _candidates(data: bytes, known: Template) -> Iterator[tuple[int, int]]:
    """Where values seem to be, by their first keys and their lengths."""
    skeleton = known.skeleton.tobytes()
    longest = len(skeleton) + _MORE_DIGITS * len(known.is_integer)
    first_key = skeleton[: skeleton.index(b":") + 1]
    last_key = re.escape(skeleton[skeleton.rindex(b'"', 0, skeleton.rindex(b'":')) :])
    ending = re.compile(last_key.replace(b"0", rb"\d+"))
    start = data.find(first_key)
    while start >= 0:
        following = data.find(first_key, start + len(first_key))
        if following >= 0:
            # between two values there is punctuation, but no brace
            stop = data.rfind(b"}", start, following) + 1
        else:
            found = ending.search(data, start)
            stop = found.end() if found else 0
        if len(skeleton) <= stop - start <= longest:
            yield start, stop
        start = following


def _compact_values(text: bytes, known: Template) -> Values | None:
    """The values of a text that is the skeleton with canonical numbers in it; None otherwise."""
    octets = np.frombuffer(text, dtype=np.uint8)
    digits = octets - np.uint8(_ZERO)
    is_digit = digits < 10
    # a value begins and ends with a brace
    follows = np.zeros_like(is_digit)
    np.logical_and(is_digit[1:], is_digit[:-1], out=follows[1:])
    squeezed = np.where(is_digit, np.uint8(_ZERO), octets)[~follows]
    if not np.array_equal(squeezed, known.skeleton):
        return None
    first = np.flatnonzero(is_digit & ~follows)
    ends = is_digit.copy()
    ends[:-1] &= ~is_digit[1:]
    last = np.flatnonzero(ends)
    width = last - first + 1
    if bool(((digits[first] == 0) & (width > 1)).any()):
        return None
    octet_last, octet_width = last[~known.is_integer], width[~known.is_integer]
    numbers = digits[octet_last].astype(np.uint16)
    for place in (1, 2):
        numbers += np.where(
            octet_width > place, digits[octet_last - place] * np.uint16(10**place), 0
        )
    if int(octet_width.max()) > _BYTE_DIGITS or int(numbers.max()) > 255:
        return None
    spans = zip(first[known.is_integer].tolist(), last[known.is_integer].tolist(), strict=True)
    if int(width[known.is_integer].max()) > _INTEGER_DIGITS:
        return None
    integers = np.array([int(text[a : b + 1]) for a, b in spans], dtype=np.int64)
    if bool((integers >= known.bounds).any()):
        return None
    return Values(numbers.astype(np.uint8).reshape(-1, ELEMENT_BYTES), integers)
