"""`prove --plan` and what it prints; nothing is run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from torchzk import doctor, prove
from torchzk.scheduler import session


def test_a_plan_is_printed_and_nothing_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    flags = ["--config", "window2k.yaml", "--device", "cpu", "--plan"]
    assert prove.run([*flags, "--json"]) == 0
    captured = capsys.readouterr()
    report = json.loads(captured.out)
    assert report["ok"] and report["circuit"] == "window-2KiB"
    assert report["peak_bytes"] == max(report["stage_bytes"].values()) <= report["budget_bytes"]
    assert not report["in_turn"] and report["key_bytes"] == 11_498_400
    for stage in ("make a dev key", "witness", "quotient", "msm b_g2"):
        assert stage in captured.err
    assert not any(tmp_path.iterdir())
    assert prove.run(flags) == 0
    assert "products and quotient at once" in capsys.readouterr().out


def test_a_plan_that_cannot_be(capsys: pytest.CaptureFixture[str]) -> None:
    flags = ["--config", "window2k.yaml", "--device", "cpu", "--plan"]
    assert prove.run([*flags, "--vram-limit", "much"]) == 2
    assert "'much' is no size" in capsys.readouterr().err


def test_doctor_says_what_a_config_takes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "some.yaml"
    config.write_text(
        "circuit:\n  kind: window\n  sector_size: 2KiB\nkeys: dev\ndevice: cpu\n"
        "block_cache: blocks\nkey_cache: keys\n"
    )
    # nothing is recorded for it
    for takes in (
        "constraints not recorded yet; see prove --plan",
        "products and quotient at once",
    ):
        assert doctor.run(["--config", str(config), "--json"]) == 0
        report = json.loads(capsys.readouterr().out.splitlines()[-1])
        assert takes in report["configs"][0]["takes"]
        assert prove.run(["--config", str(config), "--plan"]) == 0
        capsys.readouterr()


def test_what_cannot_be_proven_is_refused_before_its_job_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    config, job = tmp_path / "some.yaml", tmp_path / "job.json"
    config.write_text(
        "circuit:\n  kind: window\n  sector_size: 2KiB\nkeys: dev\ndevice: cpu\n"
        "block_cache: blocks\nkey_cache: keys\nruns: runs\ninput: job.json\n"
    )
    job.write_text("{}")
    flags = ["--config", str(config), "--json"]

    def ended(code: int) -> str:
        assert prove.run(flags) == code
        return str(json.loads(capsys.readouterr().out.splitlines()[-1])["message"])

    monkeypatch.setattr(session, "budget", lambda *_: 1 << 20)
    # what it takes is not known before its constraints were once recorded
    assert ended(3).startswith(f"{job}: ")
    with monkeypatch.context() as roomy:
        roomy.setattr(session, "budget", lambda *_: 1 << 40)
        assert prove.run([*flags, "--plan"]) == 0
        capsys.readouterr()
    assert ended(6).startswith("proving window-2KiB takes ")


def test_an_official_key_that_is_not_there_is_told_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(doctor, "self_test", lambda *_: [])
    config, job = tmp_path / "some.yaml", tmp_path / "job.json"
    config.write_text(
        "circuit:\n  kind: window\n  sector_size: 2KiB\nkeys: official\ndevice: cpu\n"
        "block_cache: blocks\nkey_cache: keys\nruns: runs\ninput: job.json\n"
        "parameter_folder: parameters\n"
    )
    job.write_text("{}")
    flags = ["--config", str(config), "--json"]
    assert prove.run(flags) == 4
    message = json.loads(capsys.readouterr().out)["message"]
    assert message.startswith(f"{tmp_path / 'parameters' / 'v28-proof-of-spacetime-fallback-'}")
    # a check needs no key, and finds what is wrong with the job
    assert prove.run([*flags, "--check"]) == 3
    capsys.readouterr()
    assert doctor.run(flags) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["configs"][0]["keys"] == "official: absent"
    assert report["configs"][0]["key_missing"] == message and message in report["warnings"]
    (tmp_path / "parameters").mkdir()
    Path(message.partition(": ")[0]).write_bytes(b"")
    assert doctor.run(flags) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["configs"][0]["key_missing"] == "" and report["warnings"] == []
    assert report["configs"][0]["keys"].startswith(f"official, {tmp_path}")
