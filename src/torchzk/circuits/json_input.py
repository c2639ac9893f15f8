"""Strict JSON of untrusted files, and typed reading of it with the place in every error.

Source: RFC 8259, less what it leaves to the reader: a repeated key, NaN, text that is not UTF-8,
numbers and nesting without bound are all refused.
"""

from __future__ import annotations

import base64
import difflib
import json
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from torchzk.errors import InputError

MAX_BYTES = 1 << 30
"""The largest file read: several times a full 32 GiB window partition as JSON."""

_LIST, _OBJECT, _QUOTE = 72, 250, 30
"""Bytes that Python takes for a list, an object of a key, and half a string."""
_DENSEST = 8
"""Bytes so taken for one of the text. Vanilla proofs take 2, and 6 where all their bytes are 0."""
_SMALL = 1 << 20
"""Bytes that any text may take."""
_SHOWN = 60
_STRING = r'"[^"\\]*(?:\\.[^"\\]*)*"'
_LONG_NUMBER = re.compile(_STRING + r"|(?P<found>-?\d{1000,})", re.DOTALL)
_NOT_A_NUMBER = re.compile(_STRING + r"|(?P<found>NaN|-?Infinity)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Node:
    """A value inside a JSON document, which knows its place.

    Every reader returns the value in the type asked for or raises `InputError`.
    """

    value: object
    place: str | int
    """Key or index in `parent`; at the root the name of the document."""
    parent: Node | None = None

    @property
    def where(self) -> str:
        """The dotted path from the root, such as `sectors[0].comm_c`; empty at the root."""
        if self.parent is None:
            return ""
        above = self.parent.where
        if isinstance(self.place, int):
            return f"{above}[{self.place}]"
        return f"{above}.{self.place}" if above else self.place

    @property
    def document(self) -> str:
        """The name of the document."""
        return str(self.place) if self.parent is None else self.parent.document

    def fail(self, problem: str) -> NoReturn:
        """Raise `InputError` for this value."""
        where = f"{self.where}: " if self.parent else ""
        raise InputError(f"{self.document}: {where}{problem}")

    def fields(self, required: Iterable[str], optional: Iterable[str] = ()) -> dict[str, Node]:
        """The members of an object that has all `required` keys and no unknown one."""
        if not isinstance(self.value, Mapping):
            self.fail(f"must be an object, is {show(self.value)}")
        needed = tuple(required)
        known = (*needed, *optional)
        for key in self.value:
            if key not in known:
                self.fail(_unknown_key(key, known))
        for key in needed:
            self.member(key)
        return {key: Node(value, key, self) for key, value in self.value.items()}

    def member(self, key: str) -> Node:
        """One member of an object, whatever else it has."""
        if not isinstance(self.value, Mapping):
            self.fail(f"must be an object, is {show(self.value)}")
        if key not in self.value:
            self.fail(f"the key '{key}' is missing")
        return Node(self.value[key], key, self)

    def items(self, count: int | None = None) -> Iterator[Node]:
        """The elements of a list, of `count` elements if given."""
        values = self._list(count)
        return (Node(value, i, self) for i, value in enumerate(values))

    def integer(self, most: int) -> int:
        """An integer in [0, most]."""
        if type(self.value) is not int:
            self.fail(f"must be an integer, is {show(self.value)}")
        if not 0 <= self.value <= most:
            self.fail(f"must be in 0..{most}, is {show(self.value)}")
        return self.value

    def text(self) -> str:
        """A string."""
        if not isinstance(self.value, str):
            self.fail(f"must be a string, is {show(self.value)}")
        return self.value

    def hex32(self) -> bytes:
        """32 bytes written as 64 hex digits."""
        text = self.text()
        if not re.fullmatch(r"[0-9a-fA-F]{64}", text):
            self.fail(f"must be 64 hex digits, is {show(text)}")
        return bytes.fromhex(text)

    def base64(self) -> bytes:
        """Bytes written in standard base64."""
        try:
            return base64.b64decode(self.text(), validate=True)
        except ValueError as e:
            self.fail(f"is no base64: {e}")

    def bytes32(self) -> bytes:
        """32 bytes written as a list of 32 integers."""
        values = self._list(32)
        octets = _octets(values)
        if octets is None:
            bad = next(v for v in self.items() if _octets([v.value]) is None)
            bad.fail(f"must be a byte, is {show(bad.value)}")
        return octets

    def many_bytes32(self, count: int) -> bytes:
        """A list of `count` values of 32 bytes, concatenated."""
        flat: list[object] = []
        for row in self._list(count):
            if type(row) is list and len(row) == 32:
                flat += row
        octets = _octets(flat) if len(flat) == 32 * count else None
        if octets is None:
            # one by one, to find the place
            octets = b"".join(item.bytes32() for item in self.items())
        return octets

    def _list(self, count: int | None) -> list[object]:
        if not isinstance(self.value, list):
            self.fail(f"must be a list, is {show(self.value)}")
        if count is not None and len(self.value) != count:
            self.fail(f"must have {count} elements, has {len(self.value)}")
        return self.value


def read_file(path: Path) -> bytes:
    """The bytes of a regular, non-empty file of at most `MAX_BYTES`.

    Raises:
        InputError: There is no such file, or it cannot be read.
    """
    try:
        status = path.stat()
        # opening a pipe would wait for its writer
        if not stat.S_ISREG(status.st_mode):
            raise InputError(f"{path}: is not a regular file")
        if status.st_size > MAX_BYTES:
            raise InputError(f"{path}: {status.st_size} bytes, the limit is {MAX_BYTES}")
        with path.open("rb") as file:
            # a byte more shows that it grew; room for more than the file is never made
            data = file.read(status.st_size + 1)
    except (OSError, ValueError) as e:
        reason = e.strerror if isinstance(e, OSError) else e
        raise InputError(f"{path}: cannot be read: {reason}") from None
    if len(data) > status.st_size:
        raise InputError(f"{path}: grew while it was read")
    return data


def parse_json(data: bytes, document: str) -> Node:
    """The root of a JSON document.

    What it takes of memory is bounded before any is taken, or a text of nothing but `{"":{}},`
    would take 33 times its bytes. What is let through takes 13 times its bytes at most, and 1 MiB;
    numbers of three digits take 10, vanilla proofs 4.

    Args:
        data: UTF-8 text.
        document: What errors call it, a path as a rule.

    Raises:
        InputError: `data` is not strict JSON; says the line and column where that is known.
    """
    if not data.strip():
        raise InputError(f"{document}: is empty")
    lists, objects, quotes = (data.count(mark) for mark in (b"[", b"{", b'"'))
    if lists * _LIST + objects * _OBJECT + quotes * _QUOTE > _SMALL + _DENSEST * len(data):
        raise InputError(
            f"{document}: has {lists} lists, {objects} objects and {quotes // 2} strings in "
            f"{len(data)} bytes; no job has so many in so few"
        )
    try:
        text = data.decode()
    except UnicodeDecodeError as e:
        raise InputError(f"{document}: is not UTF-8 text: byte {e.start} ({e.reason})") from None
    try:
        value = json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant)
    except _RepeatedKeyError as e:
        raise InputError(f"{document}: {e}") from None
    except json.JSONDecodeError as e:
        at = f"line {e.lineno} column {e.colno}"
        end = ", where the text ends" if e.pos >= len(text.rstrip()) else ""
        raise InputError(f"{document}: is not JSON: {e.msg} at {at}{end}") from None
    except _NotANumberError as e:
        at = _locate(text, _NOT_A_NUMBER)
        raise InputError(f"{document}: is not JSON: {e}{at} is no number") from None
    except RecursionError:
        raise InputError(f"{document}: is nested too deep") from None
    except ValueError:
        # the interpreter refuses to convert more than some thousand digits
        at = _locate(text, _LONG_NUMBER)
        raise InputError(f"{document}: a number{at} has too many digits") from None
    return Node(value, document)


def show(value: object) -> str:
    """A value for an error message, cut to a readable length."""
    if isinstance(value, Mapping):
        return f"an object of {len(value)} keys"
    if isinstance(value, list):
        return f"a list of {len(value)} elements"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int) and value.bit_length() > 256:
        return f"an integer of {value.bit_length()} bits"
    # ascii: a lone surrogate cannot be printed
    text = ascii(value[: _SHOWN + 1] if isinstance(value, str) else value)
    if len(text) <= _SHOWN:
        return text
    size = f" ({len(value)} characters)" if isinstance(value, str) else ""
    return f"{text[:_SHOWN]}...{size}"


def _octets(values: list[object]) -> bytes | None:
    """Integers in 0..255 as bytes; None where one is not."""
    # a boolean is an integer to `bytes`, not to us
    if any(kind is not int for kind in set(map(type, values))):
        return None
    try:
        return bytes(values)  # type: ignore[arg-type]
    except ValueError:
        return None


class _RepeatedKeyError(ValueError):
    """Raised inside the parser for an object with the same key twice."""


class _NotANumberError(ValueError):
    """Raised inside the parser for NaN and the infinities."""


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members = dict(pairs)
    if len(members) != len(pairs):
        seen: set[str] = set()
        key = next(k for k, _ in pairs if k in seen or seen.add(k))  # type: ignore[func-returns-value]
        raise _RepeatedKeyError(f"an object has the key {show(key)} twice")
    return members


def _no_constant(name: str) -> NoReturn:
    raise _NotANumberError(name)


def _locate(text: str, pattern: re.Pattern[str]) -> str:
    """Line and column of the first match outside strings."""
    for match in pattern.finditer(text):
        if match["found"]:
            start = match.start()
            line = text.count("\n", 0, start) + 1
            return f" at line {line} column {start - text.rfind(chr(10), 0, start)}"
    return ""


def _unknown_key(key: object, known: tuple[str, ...]) -> str:
    near = difflib.get_close_matches(key[:_SHOWN], known, 1) if isinstance(key, str) else []
    hint = f"did you mean '{near[0]}'?" if near else f"the keys are {', '.join(known)}"
    return f"the key {show(key)} is unknown; {hint}"
