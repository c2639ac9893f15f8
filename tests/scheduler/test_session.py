"""The constraint system of a session: recorded once, kept on disk, made again where it is bad."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from r1cs_digest import digest
from torchzk import api
from torchzk.errors import ConfigError
from torchzk.timeline import Span, Timeline


def session_of(
    folder: Path, spans: list[Span], warnings: list[str], kind: str = "winning"
) -> api.Session:
    config = api.load_config(f"{kind}2k.yaml")
    config = replace(config, block_cache=folder / "blocks", key_cache=folder, device="cpu")
    return api.open_session(config, Timeline(on_close=spans.append), warnings.append)


def test_blocks_are_recorded_once(tmp_path: Path) -> None:
    spans: list[Span] = []
    warnings: list[str] = []
    session = session_of(tmp_path, spans, warnings)
    # nothing is recorded before it is needed
    assert not spans and not any(tmp_path.iterdir())
    first = session.r1cs
    assert session.r1cs is first
    assert [span.name for span in spans] == ["record", "constraints"]
    (path,) = (tmp_path / "blocks").iterdir()
    spans.clear()
    again = session_of(tmp_path, spans, warnings).r1cs
    assert [span.name for span in spans] == ["constraints"]
    expected = digest(first)
    assert digest(again) == expected and not warnings
    raw = bytearray(path.read_bytes())
    raw[-1] ^= 1
    path.write_bytes(raw)
    spans.clear()
    mended = session_of(tmp_path, spans, warnings).r1cs
    assert [span.name for span in spans] == ["record", "constraints"]
    assert digest(mended) == expected
    (warning,) = warnings
    assert str(path) in warning and "it is made again" in warning
    raw[-1] ^= 1
    assert path.read_bytes() == raw


def test_two_blocks_of_an_update(tmp_path: Path) -> None:
    spans: list[Span] = []
    r1cs = session_of(tmp_path, spans, [], "update").r1cs
    assert [span.name for span in spans] == ["record", "record", "constraints"]
    assert r1cs.n_constraints == 1_705_039
    assert len(list((tmp_path / "blocks").iterdir())) == 2


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "blocks").write_text("a file")
    with pytest.raises(ConfigError, match="blocks: cannot make this folder"):
        _ = session_of(tmp_path, [], []).r1cs
