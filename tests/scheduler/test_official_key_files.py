"""The network's own keys: found by name, taken by digest alone, and missed with advice."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from scheduler.small_session import small_session
from torchzk.circuits.circuit import AnyCircuit
from torchzk.circuits.registry import get_circuit
from torchzk.errors import KeyFileError
from torchzk.scheduler import official_keys
from torchzk.scheduler.file_digests import digest_of
from torchzk.scheduler.key_store import get_keys, get_verifying_key, is_insecure
from torchzk.scheduler.official_keys import OfficialFile, official_file
from torchzk.timeline import Span, Timeline

SIZES = [2 << 10, 8 << 20, 512 << 20, 32 << 30, 64 << 30]


def circuits() -> list[AnyCircuit]:
    return [get_circuit(k, n) for k in ("porep", "winning", "window", "update") for n in SIZES]


def test_every_circuit_of_a_network_has_its_files() -> None:
    files = [
        official_file(c.cache_identifier, extension, c.name)
        for c in circuits()
        for extension in ("params", "vk")
    ]
    for file, circuit in zip(files[::2], circuits(), strict=True):
        assert file.sector_size == circuit.sector_size
    assert len({file.digest for file in files}) == len(files) == 40
    # spec/groth16.md section 10
    porep = official_file(get_circuit("porep", 32 << 30).cache_identifier, "params", "porep-32GiB")
    assert porep.name.endswith(
        "82a357d2f2ca81dc61bb45f4a762807aedee1b0a53fd6c4e77b46a01bfef7820.params"
    )
    assert porep.digest == "6a388072a518cf46ebd661f5cc46900a"


def test_what_was_never_published_is_said(tmp_path: Path) -> None:
    circuit = get_circuit("window", 16 << 10)
    with pytest.raises(KeyFileError, match="window-16KiB has no official key: v28-proof-of-space"):
        official_file(circuit.cache_identifier, "params", circuit.name)


def published(folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, OfficialFile]:
    """The small circuit's key as the network's, in the folder of official parameters."""
    with get_keys(small_session(folder, "dev")) as keys:
        assert keys.path is not None
    (folder / "official").mkdir()
    files = {}
    for extension in ("params", "vk"):
        name = f"v28-small.{extension}"
        raw = keys.path.with_suffix(f".{extension}").read_bytes()
        (folder / "official" / name).write_bytes(raw)
        digest = hashlib.blake2b(raw).hexdigest()[:32]
        files[name] = OfficialFile(name, digest, f"Qm{extension}", 2048)
    monkeypatch.setattr(official_keys, "_published", lambda: files)
    return files


def test_an_official_key_is_taken_by_its_digest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    published(tmp_path, monkeypatch)
    spans: list[Span] = []
    session = small_session(tmp_path, "official", spans)
    with get_keys(session) as keys:
        assert keys.path == tmp_path / "official" / "v28-small.params"
    assert [span.name for span in spans].count("key digest") == 1
    # bytes that the network published need no check of their points
    assert "key check" not in {span.name for span in spans}
    assert get_verifying_key(session) == keys.verifying
    # this one is a dev key all the same
    assert keys.insecure and is_insecure(session, keys.verifying)
    # its digest is remembered
    again: list[Span] = []
    with get_keys(small_session(tmp_path, "official", again)):
        assert "key digest" not in {span.name for span in again}


@pytest.mark.parametrize("extension", ["params", "vk"])
def test_a_file_of_other_bytes_is_refused(
    extension: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = published(tmp_path, monkeypatch)
    path = tmp_path / "official" / f"v28-small.{extension}"
    raw = bytearray(path.read_bytes())
    raw[-1] ^= 1
    path.write_bytes(raw)
    session = small_session(tmp_path, "official")
    get = get_keys if extension == "params" else get_verifying_key
    why = f"{path.name}: is not the official file.*{files[path.name].digest}; remove it"
    with pytest.raises(KeyFileError, match=why):
        get(session)
    path.unlink()
    why = f"{path.name}: the official key of small is not there.* 2048 byte .*Qm{extension} from"
    with pytest.raises(KeyFileError, match=why):
        get(session)


def test_a_digest_is_computed_again_when_its_file_or_its_note_changed(tmp_path: Path) -> None:
    path, notes = tmp_path / "file", tmp_path / "notes"
    done: list[float] = []
    spans: list[Span] = []
    timeline = Timeline(on_close=spans.append, on_advance=done.append)

    def digest(raw: bytes) -> int:
        found = digest_of(path, notes, timeline)
        assert found.blake2b == hashlib.blake2b(raw).hexdigest()
        found.remember()
        return len(spans)

    path.write_bytes(b"one")
    # it is remembered by who says so
    digest_of(path, notes, timeline)
    assert not notes.exists() and len(spans) == 1
    spans.clear()
    done.clear()
    assert digest(b"one") == digest(b"one") == 1
    assert done == [1.0]
    path.write_bytes(b"other")
    assert digest(b"other") == digest(b"other") == 2
    (note,) = notes.iterdir()
    for damaged in (
        b"",
        b"{}",
        b"[]",
        note.read_bytes().replace(b'"blake2b": "', b'"blake2b": "x'),
    ):
        note.write_bytes(damaged)
        before = len(spans)
        assert digest(b"other") == digest(b"other") == before + 1
    path.unlink()
    with pytest.raises(KeyFileError, match="no such key file"):
        digest_of(path, notes, timeline)
