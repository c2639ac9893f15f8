"""Small files of somebody else: regular, bounded, no room made for more than there is."""

from __future__ import annotations

import os
import tracemalloc
from pathlib import Path

import pytest

from torchzk.errors import ConfigError, InputError, KeyFileError, one_line
from torchzk.groth16.meta_file import is_marked_insecure
from torchzk.groth16.toxic_waste import load_toxic_waste
from torchzk.serving.guard import read_token
from torchzk.small_files import read_json, read_small
from torchzk.strict_yaml import read as read_yaml


def test_reads_one_byte_more_than_the_most(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"12345")
    assert read_small(path, 5) == read_small(path, 1 << 40) == b"12345"
    assert read_small(path, 3) == b"1234"


def test_no_room_is_made_for_what_is_not_there(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"1")
    tracemalloc.start()
    read_small(path, 1 << 34)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1 << 20


def test_nobody_waits_for_the_writer_of_a_pipe(tmp_path: Path) -> None:
    path = tmp_path / "key.meta"
    os.mkfifo(path)
    for error, read in (
        (InputError, lambda: load_toxic_waste(path)),
        (KeyFileError, lambda: is_marked_insecure(path, 2048)),
        (ConfigError, lambda: read_token(path)),
        (ConfigError, lambda: read_yaml(ConfigError, path)),
    ):
        with pytest.raises(error, match="is not a regular file"):
            read()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"a": 1, "a": 2}', "twice"),
        ("[" * 9000, "too deep"),
        ("1" * 5001, "Exceeds the limit"),
        (" " * 20001, "longer than 20000"),
        ("\ufeff{}", "BOM"),
    ],
)
def test_json_that_is_none(tmp_path: Path, text: str, why: str) -> None:
    path = tmp_path / "file"
    path.write_text(text)
    with pytest.raises(ValueError, match=why):
        read_json(path, 20000)


def test_a_name_with_a_zero_byte_is_no_file() -> None:
    with pytest.raises(OSError, match="null byte"):
        read_small(Path("a\0b"), 5)


def test_words_from_outside_are_one_line() -> None:
    assert one_line("a\x1b[31m\nb\ud800\u202eé") == r"a\x1b[31m\nb\ud800\u202eé"
    assert one_line("x" * 300) == "x" * 200 + "... (300 characters)"
