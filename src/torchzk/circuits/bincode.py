"""Bounded reading of bincode: little-endian, fixed-size integers, counts of eight bytes.

A count is never believed: the caller says what it must be, so nothing is allocated that is not
already there as bytes. Source: spec/porep.md section 8.
"""

from __future__ import annotations

from typing import NoReturn

from torchzk.errors import InputError


class Reader:
    """A cursor over bincode bytes.

    Args:
        data: The bytes, all of them: `end` refuses any that are left.
        document: What errors call it.
    """

    def __init__(self, data: bytes, document: str) -> None:
        self._data = data
        self._document = document
        self.position = 0
        self.inside = ""
        """Dotted path of the structure being read, which errors put before a field's name."""

    @property
    def left(self) -> int:
        """How many bytes are yet to be read."""
        return len(self._data) - self.position

    def fail(self, what: str, problem: str) -> NoReturn:
        """Raise `InputError` for the field `what` at the position where it starts."""
        where = f"{self.inside}.{what}" if self.inside else what
        raise InputError(f"{self._document}: byte {self.position}: {where}: {problem}")

    def take(self, n: int, what: str) -> bytes:
        """The next `n` bytes."""
        stop = self.position + n
        if stop > len(self._data):
            self.fail(what, f"needs {n} bytes, {self.left} are left")
        taken = self._data[self.position : stop]
        self.position = stop
        return taken

    def u32(self, what: str, bound: int) -> int:
        """An unsigned integer of four bytes, below `bound`; enum variants are written so."""
        return self._integer(4, what, bound)

    def u64(self, what: str, bound: int = 1 << 64) -> int:
        """An unsigned integer of eight bytes, below `bound`; `usize` is written so."""
        return self._integer(8, what, bound)

    def count(self, expected: int, what: str) -> None:
        """The count in front of a vector, which must be `expected`."""
        count = int.from_bytes(self.take(8, what), "little")
        if count != expected:
            self.position -= 8
            self.fail(what, f"must have {expected} elements, says {count}")

    def end(self) -> None:
        """Raise `InputError` unless every byte was read."""
        if self.left:
            self.fail("end", f"{self.left} bytes too many")

    def _integer(self, size: int, what: str, bound: int) -> int:
        value = int.from_bytes(self.take(size, what), "little")
        if value >= bound:
            self.position -= size
            self.fail(what, f"must be below {bound}, is {value}")
        return value
