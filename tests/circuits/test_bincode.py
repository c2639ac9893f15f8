"""Bounded reading: nothing past the end, no count believed, nothing left over."""

from __future__ import annotations

import pytest

from torchzk.circuits.bincode import Reader
from torchzk.errors import InputError

HUGE = (1 << 64) - 1


def test_reads_in_order() -> None:
    reader = Reader(b"\x02\0\0\0" + (7).to_bytes(8, "little") + b"ab" + b"\x01" + bytes(7), "job")
    assert reader.u32("variant", 3) == 2
    reader.count(7, "items")
    assert reader.take(2, "raw") == b"ab"
    assert reader.u64("index") == 1
    assert reader.position == 22
    reader.end()


@pytest.mark.parametrize("n", range(8))
def test_integer_cut_short(n: int) -> None:
    with pytest.raises(InputError, match=rf"job: byte 0: index: needs 8 bytes, {n} are left"):
        Reader(bytes(n), "job").u64("index")


@pytest.mark.parametrize("count", [0, 6, 8, 1 << 32, 1 << 63, HUGE])
def test_count_is_not_believed(count: int) -> None:
    reader = Reader(bytes(3) + count.to_bytes(8, "little"), "job")
    reader.take(3, "raw")
    reader.inside = "path[1]"
    with pytest.raises(InputError, match=rf"byte 3: path\[1\].hashes: must have 7 .* {count}$"):
        reader.count(7, "hashes")


@pytest.mark.parametrize("n", [1, 1 << 31, HUGE])
def test_take_is_bounded(n: int) -> None:
    with pytest.raises(InputError, match=f"needs {n} bytes, 0 are left"):
        Reader(b"", "job").take(n, "raw")


def test_integer_has_a_bound() -> None:
    assert Reader(b"\x07" + bytes(7), "job").u64("index", 8) == 7
    with pytest.raises(InputError, match="byte 0: index: must be below 8, is 8"):
        Reader(b"\x08" + bytes(7), "job").u64("index", 8)


def test_bytes_left_over() -> None:
    reader = Reader(b"abc", "job")
    reader.take(1, "raw")
    with pytest.raises(InputError, match="job: byte 1: end: 2 bytes too many"):
        reader.end()
