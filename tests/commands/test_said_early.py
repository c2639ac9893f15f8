"""What is wrong with flags and the files that they name is said before anything is loaded."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from torchzk import prove, verify
from torchzk.errors import ConfigError
from torchzk.proof_file import ProofFormat, check_writable, write_proof

CONFIG = ["--config", "window2k.yaml", "--device", "cpu"]
CASES: list[tuple[int, str, list[str]]] = [
    (2, "did you mean --check?", ["--chek"]),
    (2, "did you mean --input?", ["--inptu=job.json"]),
    (2, "did you mean --out?", ["--outt", "proof.bin"]),
    (2, "not allowed with", ["--plan", "--check"]),
    (2, "--timeline-lines no/lines.txt: there is no folder", ["--timeline-lines", "no/lines.txt"]),
    (2, "--timeline-lines .: is a folder", ["--timeline-lines", "."]),
    (3, "missing.json: there is no such job file", ["--input", "missing.json"]),
    (4, "missing.params: no such key file", ["--keys", "missing.params"]),
    (4, "did you mean official?", ["--keys", "offical"]),
    (4, "is a folder; name the key's file", ["--keys", "."]),
]


@pytest.fixture(autouse=True)
def nothing_is_loaded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def opened(*_: object) -> None:
        raise AssertionError("a session was opened")

    monkeypatch.setattr(prove, "recorded_sessions", opened)
    monkeypatch.setattr(prove, "prove_several", opened)
    monkeypatch.setattr(verify, "Progress", opened)
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(("code", "text", "flags"), CASES, ids=[" ".join(c[2]) for c in CASES])
def test_prove(code: int, text: str, flags: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert prove.run([*CONFIG, *flags, "--json"]) == code
    report = json.loads(capsys.readouterr().out)
    assert text in report["message"]


def test_a_check_needs_no_key(capsys: pytest.CaptureFixture[str]) -> None:
    assert prove.run([*CONFIG, "--keys", "missing.params", "--check"]) == 1
    assert "a session was opened" in capsys.readouterr().err


def test_of_several_jobs_a_missing_one_fails_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert prove.run([*CONFIG, "--input", "a.json", "--input", "b.json"]) == 1
    assert "a session was opened" in capsys.readouterr().err


def test_verify(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "proof").write_bytes(bytes(192))
    argv = [*CONFIG, "--proof", "proof", "--key", "missing.vk"]
    assert verify.run(argv) == 4
    assert "missing.vk: no such key file" in capsys.readouterr().err


@pytest.mark.parametrize("how", ["hex", "base64"])
def test_text_is_told_from_raw_bytes(
    how: ProofFormat, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_proof(tmp_path / "proof", bytes(range(192)), how)
    assert verify.run([*CONFIG, "--proof", "proof"]) == 5
    assert f"a proof as {how}, not its raw bytes; see --format" in capsys.readouterr().err


def test_a_folder_that_is_not_ours_to_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_writable(tmp_path / "proof")
    # whoever runs the tests may write everywhere
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(ConfigError, match="--out .*proof: cannot write to"):
        check_writable(tmp_path / "proof")
