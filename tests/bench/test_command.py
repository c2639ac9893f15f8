"""The command `python -m torchzk.bench`, from its arguments on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from torchzk import ops
from torchzk.bench.__main__ import run
from torchzk.bench.cases import BENCHMARKS, select
from torchzk.bench.figures import FIGURES
from torchzk.bench.proof_cases import PROOFS
from torchzk.params.curves import G1

COLUMNS = {"name", "operation", "size", "inputs", "limit_bytes", "p20_s", "p50_s", "p80_s", "runs"}
COLUMNS |= {"first_call_s", "figure", "unit", "work", "work_of", "how", "exact", "sppark"}
COLUMNS |= {"sppark_source", "ratio_to_sppark", "must", "goal", "targets_are_ratios"}
COLUMNS |= {"reaches_must", "reaches_goal", "against", "ratio_to_against", "floor_s"}
COLUMNS |= {
    "ratio_to_floor",
    "peak_bytes",
    "within_limit",
    "backend",
    "variant",
    "device",
    "sm_clock_mhz",
}
COLUMNS |= {"memory_clock_mhz", "power_w", "temperature_c", "power_state"}
COLUMNS |= {"driver", "torch", "cuda", "triton", "python", "commit", "dirty", "date"}


def rows_in(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def bench(*arguments: str) -> int:
    return run([*arguments, "--device", "cpu", "--size", "2^3", "--runs", "3"])


def test_names_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--list"]) == 0
    names = capsys.readouterr().out.split()
    assert names == [b.name for b in BENCHMARKS] + [p.name for p in PROOFS]
    assert len(set(names)) == len(names)
    assert {"ntt.2^20", "msm.g1.2^24.ones90", "msm.g1.2^27.4GiB"} <= set(names)
    # a figure of a benchmark that is not there would be forgotten
    assert set(FIGURES) <= set(names)


def test_patterns() -> None:
    assert [b.name for b in select(["ntt.2^20"])] == ["ntt.2^20"]
    assert {b.operation for b in select(["msm"])} == {"msm.g1", "msm.g2"}
    skewed = [b.name for b in select(["msm.g1.2^24.equal"])]
    assert skewed == ["msm.g1.2^24", "msm.g1.2^24.equal"]
    limited = [b.name for b in select(["*.4GiB"])]
    assert limited == ["msm.g1.2^27.40GiB", "msm.g1.2^27.4GiB"]
    assert [b.name for b in select(["ntt", "quotient"], 12)] == ["ntt.12", "quotient.12"]
    # a whole name is that one alone, the beginning of names is all of them
    assert [b.name for b in select(["msm.g1.2^24"])] == ["msm.g1.2^24"]
    assert {b.operation for b in select(["spmv"])} == {"spmv", "spmv_copies", "spmv_transposed"}


def test_rows_are_appended(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "deep" / "rows.jsonl"
    names = ("ntt", "msm.g1.2^24.ones90", "--out", str(out), "--commit", "abc")
    for _ in range(2):
        assert bench(*names, "--json") == 0
    rows = rows_in(out)
    assert [r["name"] for r in rows] == 2 * ["ntt.2^3", "msm.g1.2^3", "msm.g1.2^3.ones90"]
    for row in rows:
        assert set(row) == COLUMNS
        assert row["exact"] is True and row["runs"] == 3 and row["commit"] == "abc"
        assert 0 < row["p20_s"] <= row["p50_s"] <= row["p80_s"]
        # figures are of other sizes
        assert row["sppark"] is row["must"] is None
    skewed = rows[2]
    assert skewed["against"] == "msm.g1.2^3"
    assert skewed["ratio_to_against"] == skewed["p50_s"] / rows[1]["p50_s"]
    report = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert report["ok"] and report["wrong"] == [] and report["rows"] == rows[3:]


def test_files_by_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert bench("intt", "poseidon.2", "--profile") == 0
    # what takes long on a CPU are operations of torch
    assert " x aten::" in capsys.readouterr().err
    (row,) = rows_in(tmp_path / "runs" / "bench" / "transforms.jsonl")
    assert row["name"] == "intt.2^3" and row["commit"] and row["dirty"] in (None, False, True)
    (row,) = rows_in(tmp_path / "runs" / "bench" / "hashes.jsonl")
    assert row["name"] == "poseidon.2.2^3"


def test_a_wrong_result_is_written_down_and_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(ops, "msm", lambda *args, **kwargs: G1.generator)
    out = tmp_path / "rows.jsonl"
    assert bench("msm.g1.2^20", "ntt.2^20", "--out", str(out)) == 1
    assert [(r["name"], r["exact"]) for r in rows_in(out)] == [
        ("ntt.2^3", True),
        ("msm.g1.2^3", False),
    ]
    assert "WRONG: msm.g1.2^3" in capsys.readouterr().err
    assert bench("msm.g1.2^20", "--out", str(out), "--json") == 1
    report = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert not report["ok"] and report["wrong"] == ["msm.g1.2^3"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing"], "no benchmark is called nothing"),
        (["proof.nothing"], "no proof is called proof.nothing; there are proof.porep32g"),
        (["proof.window2k", "--limits", "24GB"], "neither none nor numbers as 80,24,16"),
        (["--size", "0"], "neither a number above 0"),
        (["--runs", "-1"], "--runs"),
        (["ntt", "--device", "tpu"], "tpu"),
    ],
)
def test_usage(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(arguments) == 2
    assert message in capsys.readouterr().err
