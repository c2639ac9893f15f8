"""Strict JSON, and places in the errors of typed readers."""

from __future__ import annotations

import os
import tracemalloc
from pathlib import Path

import pytest

from torchzk.circuits.json_input import Node, parse_json, read_file, show
from torchzk.errors import InputError


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "job: is empty"),
        (b" \n\t", "job: is empty"),
        (b"\xff{}", "not UTF-8 text: byte 0"),
        (b"\xef\xbb\xbf{}", "BOM"),
        (b"hello", "is not JSON: .* line 1 column 1"),
        (b'{"a": 1,\n "b": }', "line 2 column 7"),
        (b'{"a": 1} {"b"', "Extra data"),
        (b'{"a": 1', "where the text ends"),
        (b'{"a": 1, "b": 2, "a": 3}', "has the key 'a' twice"),
        (b'["NaN", \n NaN]', "NaN at line 2 column 2 is no number"),
        (b"[-Infinity]", "-Infinity at line 1 column 2"),
        (b'{"a": ' + b"7" * 1_000_000 + b"}", "a number at line 1 column 7 has too many digits"),
        (b"[" * 10_000, "is nested too deep"),
        (b'{"a":' * 2_000, "is nested too deep"),
        (b'"' + b"a" * 100_000, "Unterminated string"),
    ],
)
def test_refused(text: bytes, message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse_json(text, "job")


@pytest.mark.parametrize(
    "piece", [b"[],", b"{},", b'{"":{}},', b'"ab",', b"300,", b"1.5,", b"[9,9,9,9,9,9,9],"]
)
def test_memory_is_bounded_before_any_is_taken(piece: bytes) -> None:
    text = b"[" + piece * ((1 << 19) // len(piece)) + b"0]"
    tracemalloc.start()
    try:
        parse_json(text, "job")
        dense = False
    except InputError as e:
        dense = "no job has so many in so few" in str(e)
    finally:
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert dense == (piece in (b"[],", b"{},", b'{"":{}},', b'"ab",'))
    assert peak < (len(text) // 2 if dense else 13 * len(text))


def node(text: str) -> Node:
    return parse_json(text.encode(), "job")


def test_place_of_a_value() -> None:
    root = node('{"a": {"b": [0, {"c": [1, 2]}]}}')
    b = root.fields(["a"])["a"].fields(["b"])["b"]
    (_, item) = b.items(2)
    (_, two) = item.fields(["c"])["c"].items()
    assert two.integer(2) == 2
    with pytest.raises(InputError, match=r"^job: a\.b\[1\]\.c\[1\]: must be in 0\.\.1, is 2$"):
        two.integer(1)


@pytest.mark.parametrize("value", ["1.0", "1e3", '"1"', "true", "null", "[]", "{}", "1e999"])
def test_no_integer(value: str) -> None:
    with pytest.raises(InputError, match="job: must be an integer"):
        node(value).integer(1 << 64)


@pytest.mark.parametrize("bad", ["256", "-1", "1.0", "true", "null", '"1"', "[]", "1" * 300])
def test_no_byte(bad: str) -> None:
    row = ",".join(["0"] * 9 + [bad] + ["0"] * 22)
    with pytest.raises(InputError, match=r"job: \[9\]: must be a byte, is "):
        node(f"[{row}]").bytes32()
    good = ",".join(["0"] * 32)
    with pytest.raises(InputError, match=r"job: \[1\]\[9\]: must be a byte, is "):
        node(f"[[{good}],[{row}]]").many_bytes32(2)


def test_lengths_of_lists() -> None:
    row = [[1] * 32, [2] * 31]
    with pytest.raises(InputError, match=r"job: \[1\]: must have 32 elements, has 31"):
        node(str(row)).many_bytes32(2)
    with pytest.raises(InputError, match="job: must have 3 elements, has 2"):
        node(str(row)).many_bytes32(3)
    assert node(str([[1] * 32, [2] * 32])).many_bytes32(2) == b"\x01" * 32 + b"\x02" * 32


def test_keys() -> None:
    with pytest.raises(InputError, match="the key 'b' is missing"):
        node('{"a": 1}').fields(["a", "b"])
    with pytest.raises(InputError, match="'rondomness' is unknown; did you mean 'randomness'"):
        node('{"rondomness": 1}').fields([], ["randomness"])
    with pytest.raises(InputError, match="'zzz' is unknown; the keys are a, b"):
        node('{"zzz": 1, "a": 1}').fields(["a"], ["b"])
    with pytest.raises(InputError, match="must be an object, is a list of 1 elements"):
        node("[1]").fields([])


def test_shown_values_are_short_and_printable() -> None:
    with pytest.raises(InputError) as e:
        node('"\\ud800' + "x" * 100_000 + '"').integer(1)
    str(e.value).encode("utf-8")
    assert len(str(e.value)) < 200
    assert show(1 << 20_000) == "an integer of 20001 bits"


def test_files_that_are_none(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name, message in (
        ("absent", "cannot be read: No such file"),
        ("pipe", "is not a regular file"),
        ("", "is not a regular file"),
        ("zero\0byte", "cannot be read"),
    ):
        with pytest.raises(InputError, match=message):
            read_file(tmp_path / name)


def test_file_too_large(tmp_path: Path) -> None:
    path = tmp_path / "job.json"
    with path.open("wb") as file:
        file.truncate((1 << 30) + 1)
    with pytest.raises(InputError, match="the limit is 1073741824"):
        read_file(path)
