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

    def fail(self, what: str, problem: str) -> NoReturn:
        """Raise `InputError` for the value `what` at the position where it starts."""
        raise InputError(f"{self._document}: byte {self.position}: {what}: {problem}")

    def take(self, n: int, what: str) -> bytes:
        """The next `n` bytes."""
        stop = self.position + n
        if stop > len(self._data):
            self.fail(what, f"needs {n} bytes, {len(self._data) - self.position} are left")
        taken = self._data[self.position : stop]
        self.position = stop
        return taken

    def u32(self, what: str) -> int:
        """An unsigned integer of four bytes; enum variants are written so."""
        return int.from_bytes(self.take(4, what), "little")

    def u64(self, what: str) -> int:
        """An unsigned integer of eight bytes; `usize` and counts are written so."""
        return int.from_bytes(self.take(8, what), "little")

    def count(self, expected: int, what: str) -> int:
        """The count in front of a vector, which must be `expected`."""
        start = self.position
        count = self.u64(what)
        if count != expected:
            self.position = start
            self.fail(what, f"must have {expected} elements, says {count}")
        return count

    def end(self) -> None:
        """Raise `InputError` unless every byte was read."""
        left = len(self._data) - self.position
        if left:
            self.fail("the end", f"{left} bytes too many")
