"""The mark of insecure keys beside their files."""

from __future__ import annotations

from pathlib import Path

import pytest

from torchzk.errors import KeyFileError
from torchzk.groth16.meta_file import is_marked_insecure, write_insecure_meta


def test_a_marked_key_is_told_by_either_of_its_files(tmp_path: Path) -> None:
    key = tmp_path / "window_2048.params"
    assert not is_marked_insecure(key, 2048)
    assert write_insecure_meta(key, 2048) == tmp_path / "window_2048.meta"
    assert is_marked_insecure(key, 2048)
    assert is_marked_insecure(key.with_suffix(".vk"), 2048)


def test_the_meta_of_an_official_key_is_no_mark(tmp_path: Path) -> None:
    (tmp_path / "key.meta").write_text('{"sector_size":2048}')
    assert not is_marked_insecure(tmp_path / "key.params", 2048)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", '{"sector_size": 4096}', '{"sector_size": "2048"}', "[" * 9999]
)
def test_a_damaged_or_foreign_meta_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "key.meta").write_text(text)
    with pytest.raises(KeyFileError, match=r"key\.meta"):
        is_marked_insecure(tmp_path / "key.params", 2048)
