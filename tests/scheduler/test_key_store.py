"""Keys for a run: made once, checked once, and marked for what they are."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from scheduler.small_session import small_session
from torchzk import api
from torchzk.errors import KeyFileError, ResourceError
from torchzk.groth16.keys import QUERIES, ProvingKey
from torchzk.scheduler import dev_keys, key_store, machine
from torchzk.scheduler.file_digests import FileDigest
from torchzk.scheduler.key_files import digest_in
from torchzk.scheduler.key_place import where_made, where_of_file
from torchzk.scheduler.key_store import get_keys, get_verifying_key, is_insecure
from torchzk.timeline import Span, Timeline

GIB = 1 << 30


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


def other_secrets(folder: Path) -> Path:
    """A file of toxic waste that is not everybody's."""
    path = folder / "waste.json"
    values = {"alpha": "0x3", "beta": "0x5", "gamma": "0x7", "delta": "0xb", "tau": "0xd"}
    path.write_text(json.dumps(values))
    return path


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
    secrets = other_secrets(tmp_path)
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


def test_a_setup_that_is_broken_off_leaves_the_older_pair(
    tmp_path: Path, golden: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    params, vk = tmp_path / "window_2048.params", tmp_path / "window_2048.vk"
    older = {
        params: (golden / "groth16" / "window_2048_head.params").read_bytes(),
        vk: (golden / "groth16" / "window_2048.vk").read_bytes(),
    }
    for path, raw in older.items():
        path.write_bytes(raw)
    secrets = other_secrets(tmp_path)

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(dev_keys, "write_params", stop)
    session = session_of(tmp_path / "cache", vk)
    with pytest.raises(KeyboardInterrupt):
        api.write_dev_keys(session, tmp_path, secrets)
    assert {path: path.read_bytes() for path in older} == older
    assert api.get_verifying_key(session).n_inputs == 23
    # between the two files, which is a moment
    monkeypatch.setattr(dev_keys, "write_params", lambda *_: None)
    api.write_dev_keys(session, tmp_path, secrets)
    for named in (vk, params):
        with pytest.raises(KeyFileError, match=f"{named.name}: .* are not of one key"):
            api.get_verifying_key(session_of(tmp_path / "cache", named))


def test_the_verifying_key_of_dev_is_made_without_the_rest(tmp_path: Path) -> None:
    spans: list[Span] = []
    session = session_of(tmp_path, "dev", spans)
    vk = api.get_verifying_key(session)
    assert names(spans) == {"constraints", "record", "setup: verifying key"}
    assert api.key_sha256(vk) == "bc98ce20d105f322ce42f29dca453b812f79fddf9306b658006fc9a78db3d804"
    assert [path.name for path in tmp_path.iterdir()] == ["blocks"]


def test_a_file_that_another_takes_the_place_of_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its points are not those whose digest says that they were checked."""

    def late(session: api.Session, path: Path) -> FileDigest:
        other = path.with_suffix(".other")
        other.write_bytes(path.read_bytes())
        other.replace(path)
        return digest_in(session, path)

    session = small_session(tmp_path, "dev")
    with get_keys(session):
        pass
    monkeypatch.setattr(key_store, "digest_in", late)
    with pytest.raises(KeyFileError, match="window_2048.params: the file changed while it was"):
        get_keys(session)


def same_key(one: ProvingKey, other: ProvingKey) -> bool:
    """Whether two keys have the same points."""
    return one.vk == other.vk and all(
        torch.equal(
            one.query(name, 0, one.lengths.of(name), "cpu"),
            other.query(name, 0, other.lengths.of(name), "cpu"),
        )
        for name in QUERIES
    )


def test_a_key_made_in_memory_is_the_dev_key(tmp_path: Path) -> None:
    spans: list[Span] = []
    session = small_session(tmp_path / "none", "dev-in-memory", spans)
    with get_keys(session) as keys:
        assert keys.insecure and keys.path is None and "memory" in keys.source
        # a CPU's memory is the host's
        assert keys.stays
        with get_keys(small_session(tmp_path / "keys", "dev")) as cached:
            assert cached.where == "file" and cached.source.endswith("window_2048.params")
            assert same_key(keys.proving, cached.proving)
            assert keys.sha256 == cached.sha256
    assert {"make key", "setup: h"} <= names(spans) and "key check" not in names(spans)
    assert not (tmp_path / "none").exists()
    assert get_verifying_key(session) == keys.verifying
    assert is_insecure(session, keys.verifying)


def test_a_file_goes_where_its_place_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session = small_session(tmp_path, "dev")
    with get_keys(session) as file, get_keys(session, place="device") as held:
        assert (file.where, held.where) == ("file", "device")
        assert same_key(file.proving, held.proving)
    # as a GPU's session is asked; nothing runs there
    gpu = replace(session, device=torch.device("cuda"))
    for usable, where in ((4 * GIB + held.proving.lengths.n_bytes, "host"), (4 * GIB, "file")):
        memory = machine.Memory(64 * GIB, usable, None)
        monkeypatch.setattr(machine, "memory", lambda memory=memory: memory)
        assert where_of_file(gpu, "host", held.proving.lengths.n_bytes) == where
        assert where_of_file(gpu, "device", held.proving.lengths.n_bytes) == "device"
        assert where_of_file(session, "host", held.proving.lengths.n_bytes) == "file"
    assert where_made(gpu, "device", GIB) == where_made(session, "host", GIB) == "device"
    with pytest.raises(
        ResourceError, match=r"small takes 1\.0 GiB of the host.* 4\.0 GiB are avai"
    ):
        where_made(gpu, "host", GIB)
    monkeypatch.setattr(machine, "memory", lambda: machine.Memory(64 * GIB, 5 * GIB, None))
    assert where_made(gpu, "host", GIB) == "host"


def test_what_cannot_fit_is_not_begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "keys"
    for keys in ("dev", "dev-in-memory"):
        session = small_session(folder, keys)
        # the plan of a proof is there, and then somebody takes the memory
        assert session.plan.peak
        with monkeypatch.context() as patched:
            patched.setattr(machine, "memory", lambda: machine.Memory(1 << 16, 1 << 16, None))
            with pytest.raises(ResourceError, match=r"a key of small takes .* 0\.0 GiB are avail"):
                get_keys(session)
    monkeypatch.setattr(machine, "disk_free", lambda folder: 1000)
    with pytest.raises(
        ResourceError, match=r"the key of small takes 0\.\d MiB in .*keys, 0\.0 MiB"
    ):
        get_keys(small_session(folder, "dev"))
    assert not folder.exists()
