"""Keys for a run: made once, checked once, and marked for what they are."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from torchzk import api
from torchzk.errors import KeyFileError
from torchzk.scheduler.key_store import get_keys
from torchzk.timeline import Span, Timeline


def session_of(folder: Path, keys: str | Path, spans: list[Span] | None = None) -> api.Session:
    config = replace(
        api.load_config("window2k.yaml"),
        keys=keys,
        key_cache=folder,
        block_cache=folder / "blocks",
        device="cpu",
    )
    timeline = Timeline() if spans is None else Timeline(on_close=spans.append)
    return api.open_session(config, timeline)


def names(spans: list[Span]) -> set[str]:
    return {span.name for span in spans}


def test_dev_keys_are_made_once_and_checked_once(tmp_path: Path) -> None:
    first: list[Span] = []
    with api.get_keys(session_of(tmp_path, "dev", first)) as keys:
        assert keys.insecure
    assert {"setup: h", "make key", "record", "key check"} <= names(first)
    again: list[Span] = []
    with api.get_keys(session_of(tmp_path, "dev", again)) as keys:
        assert keys.insecure and not keys.stays and keys.where == "file"
        proving = keys.proving
        first_point = proving.query("b_g2", 0, 1, "cpu")
    # the digest is remembered too
    assert names(again) == {"constraints"}
    with pytest.raises(ValueError, match="closed"):
        proving.query("b_g2", 0, 1, "cpu")
    # on a device that holds the key, the file is needed no more
    loaded: list[Span] = []
    with get_keys(session_of(tmp_path, "dev", loaded), place="device") as keys:
        assert keys.stays and keys.where == "device" and keys.path is not None
    assert names(loaded) == {"constraints", "load key"}
    assert keys.proving.lengths == proving.lengths
    assert torch.equal(keys.proving.query("b_g2", 0, 1, "cpu"), first_point)
    # the same key from another folder was checked too; one changed byte makes it another
    raw = bytearray(keys.path.read_bytes())
    raw[868 + 96 * 23 + 4 + 95] ^= 1
    moved = tmp_path / "moved.params"
    moved.write_bytes(raw)
    with pytest.raises(KeyFileError, match=r"moved\.params: h\[0\]"):
        api.get_keys(session_of(tmp_path, moved))
    session = session_of(tmp_path, "dev")
    assert api.is_insecure(session, api.get_verifying_key(session))


def test_keys_from_secrets_of_ones_own_are_marked(tmp_path: Path) -> None:
    secrets = tmp_path / "waste.json"
    values = {"alpha": "0x3", "beta": "0x5", "gamma": "0x7", "delta": "0xb", "tau": "0xd"}
    secrets.write_text(json.dumps(values))
    session = session_of(tmp_path, "dev")
    params, vk, _ = api.write_dev_keys(session, tmp_path / "out", secrets)
    for path in (params, vk):
        session = session_of(tmp_path, path)
        assert api.is_insecure(session, api.get_verifying_key(session))
    with api.get_keys(session_of(tmp_path, params)) as keys:
        assert keys.insecure
    # nothing but the mark tells them from a real setup's
    params.with_suffix(".meta").unlink()
    assert not api.is_insecure(session, api.get_verifying_key(session))


def test_the_verifying_key_of_dev_is_made_without_the_rest(tmp_path: Path) -> None:
    spans: list[Span] = []
    session = session_of(tmp_path, "dev", spans)
    vk = api.get_verifying_key(session)
    assert names(spans) == {"constraints", "record", "setup: verifying key"}
    assert api.key_sha256(vk) == "bc98ce20d105f322ce42f29dca453b812f79fddf9306b658006fc9a78db3d804"
    assert [path.name for path in tmp_path.iterdir()] == ["blocks"]
