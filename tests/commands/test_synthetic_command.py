"""The command that makes synthetic sectors, from its arguments on."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
import torch

from child_environment import run_python
from torchzk import api, prove, synthetic


def last_json(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    report = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert isinstance(report, dict)
    return report


def flags(out: Path, *more: str, size: str = "2KiB") -> list[str]:
    return ["--name", "synth2k", "--sector-size", size, "--out", str(out), *more]


@pytest.fixture
def known(golden: Path) -> dict[str, Any]:
    sectors = json.loads((golden / "synthetic.json").read_text())["sectors"]
    read = sectors["synth2k"]
    assert isinstance(read, dict)
    return read


def test_a_c1_output(known: dict[str, Any], tmp_path: Path, capsys: Any) -> None:
    # folders are made, as in the commands that stand in configs
    out = tmp_path / "runs" / "inputs" / "c1.json"
    assert synthetic.run(flags(out, "--json")) == 0
    report = last_json(capsys)
    assert (report["bytes"], report["sha256"]) == (known["c1"]["bytes"], known["c1"]["sha256"])
    assert hashlib.sha256(out.read_bytes()).hexdigest() == report["sha256"]
    for key in ("comm_d", "comm_r", "replica_id", "registered_proof", "sector_size"):
        assert report[key] == known[key]
    assert (report["ok"], report["kind"], report["out"]) == (True, "porep", str(out))
    assert list(out.parent.iterdir()) == [out]


def test_one_thread_is_enough(tmp_path: Path) -> None:
    """More than one take many times as long where other work keeps the cores busy."""
    torch.set_num_threads(2)
    try:
        assert synthetic.run(flags(tmp_path / "c1.json")) == 0
        assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(1)


@pytest.mark.parametrize("kind", ["winning", "window", "update"])
def test_other_jobs(kind: str, known: dict[str, Any], tmp_path: Path, capsys: Any) -> None:
    out = tmp_path / "job.json"
    assert synthetic.run(flags(out, "--kind", kind, size="2048")) == 0
    stdout, stderr = capsys.readouterr()
    assert stdout == f"{out}\n"
    assert "it stores nothing" in stderr
    assert hashlib.sha256(out.read_bytes()).hexdigest() == known[kind]["job_sha256"]


@pytest.mark.parametrize("kind", ["winning", "window"])
def test_post_jobs_hold(kind: str, tmp_path: Path) -> None:
    """Of a sector that no vector has, with every flag: its vanilla proofs verify."""
    out = tmp_path / "job.json"
    more = ["--kind", kind, "--sector-id", "18446744073709551615", "--miner-id", "0"]
    more += ["--registered-proof", "StackedDrg2KiBV1"]
    assert (
        synthetic.run(["--name", "other", "--sector-size", "2KiB", "--out", str(out), *more]) == 0
    )
    session = api.open_session(api.load_config(f"{kind}2k.yaml"))
    job = api.load_job(session, out)
    api.check(session, job)
    assert (job.sectors[0].sector_id, job.miner_id) == ((1 << 64) - 1, 0)


@pytest.mark.parametrize("kind", ["porep", "winning"])
def test_a_config_makes_its_input(
    kind: str, known: dict[str, Any], tmp_path: Path, capsys: Any
) -> None:
    """Once: what is there is taken. A job that is named goes before it."""
    path = tmp_path / "some.yaml"
    path.write_text(
        f"circuit: {{kind: {kind}, sector_size: 2KiB}}\nsynthetic: synth2k\n"
        "input_cache: made\nkeys: dev\ndevice: cpu\nruns: runs\n"
    )
    check = ["--config", str(path), "--check", "--json"]
    made = tmp_path / "made" / f"synth2k-{kind}-2KiB.json"
    for first in (True, False):
        assert prove.run(check) == 0
        out, err = capsys.readouterr()
        assert "synth2k is synthetic: it stores nothing" in err
        assert ("make input" in err) is first
        # whose sector it is is known, so there is nothing to say of replica_id
        report = json.loads(out.splitlines()[-1])
        assert report["checked"] and report["notes"] == []
        expected = known["c1"]["sha256"] if kind == "porep" else known[kind]["job_sha256"]
        assert hashlib.sha256(made.read_bytes()).hexdigest() == expected
    assert list(made.parent.iterdir()) == [made]
    made.rename(tmp_path / "mine.json")
    assert prove.run([*check, "--input", str(tmp_path / "mine.json")]) == 0
    assert "synthetic" not in capsys.readouterr().err
    assert not made.exists()


def test_a_config_of_a_size_without_synthetic_sectors(tmp_path: Path, capsys: Any) -> None:
    path = tmp_path / "some.yaml"
    path.write_text(
        "circuit: {kind: window, sector_size: 16KiB}\nsynthetic: x\nkeys: dev\ndevice: cpu\n"
        "runs: runs\n"
    )
    assert prove.run(["--config", str(path), "--check"]) == 2
    assert "sectors of 16KiB have no registered proof" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--sector-size", "16KiB"], "there are 2KiB, 8MiB, 512MiB, 32GiB, 64GiB"),
        (["--sector-size", "2k"], "'2k' is no size"),
        (["--sector-id", "-1"], "--sector-id: must be an integer in 0..18446744073709551615"),
        (["--miner-id", "18446744073709551616"], "--miner-id: must be an integer in"),
        (["--miner-id", "9" * 5000], "--miner-id: must be an integer in"),
        (["--name", "é"], "is no ASCII text"),
        (["--kind", "c1"], "invalid choice: 'c1'"),
        (["--registered-proof", "StackedDrg2KiBV11"], "did you mean StackedDrg2KiBV1_1?"),
        (["--registered-proof", "StackedDrg8MiBV1_1"], "no seal proof of 2048 byte sectors"),
        (
            ["--registered-proof", "StackedDrg2KiBV1_1_Feat_SyntheticPoRep"],
            "whose challenges follow from the seed alone",
        ),
        (["--device", "gpu"], "device: must be auto, cpu, cuda, cuda:N"),
        (["--out", "/dev/null/folder/c1.json"], "cannot make this folder"),
    ],
)
def test_refused(more: list[str], message: str, tmp_path: Path, capsys: Any) -> None:
    assert synthetic.run([*flags(tmp_path / "c1.json"), *more, "--json"]) == 2
    out, err = capsys.readouterr()
    assert message in json.loads(out)["message"]
    assert "Traceback" not in err
    assert list(tmp_path.iterdir()) == []


def test_no_such_device(tmp_path: Path, capsys: Any) -> None:
    assert synthetic.run(flags(tmp_path / "c1.json", "--device", "cuda:99", "--json")) == 6
    assert last_json(capsys)["error"] == "ResourceError"


def test_a_fault_needs_no_torch(tmp_path: Path) -> None:
    code = (
        "import sys; from torchzk import synthetic\n"
        "code = synthetic.run(['--name', 'a', '--sector-size', '16KiB', '--out', 'x'])\n"
        "assert 'torch' not in sys.modules\nsys.exit(code)"
    )
    done = run_python("-c", code, cwd=tmp_path)
    assert done.returncode == 2, done.stderr
