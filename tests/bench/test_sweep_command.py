"""A whole sweep on a CPU, over a circuit of a few constraints: rows as they come, and taken up."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from scheduler.small_proofs import ProvableCircuit
from torchzk import ops
from torchzk.bench import sweep_prover, sweep_table
from torchzk.bench.__main__ import run as bench
from torchzk.circuits.post_shapes import post_shape
from torchzk.scheduler import session
from torchzk.scheduler.device_budget import prepare_memory

ROWS = Path("runs/bench/sweep.jsonl")
FLAGS = ["sweep", "window2k", "--device", "cpu", "--backend", "torch", "--no-pictures"]
FLAGS += ["--policies", "kernels,two-locks", "--workers", "2", "--in-flight", "1", "--sectors", "1"]
ALL = ["kernels", "two-locks"]


class StoppedError(BaseException):
    """What nobody catches, as when a call's time is up."""


@pytest.fixture(autouse=True)
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sectors of two partitions, each of as many constraints as one can read in a minute."""
    monkeypatch.chdir(tmp_path)
    circuit = ProvableCircuit(post_shape("window", 2048))
    monkeypatch.setattr(session, "get_circuit", lambda kind, size: circuit)
    monkeypatch.setattr(sweep_prover, "inputs_agree", lambda *_: True)
    file = Path("runs/inputs/window2k.json")
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps({"seeds": [1, 2]}))


def rows() -> list[dict[str, Any]]:
    return [json.loads(line) for line in ROWS.read_text().splitlines()]


def test_a_sweep_that_was_stopped_is_taken_up(monkeypatch: pytest.MonkeyPatch) -> None:
    real, done = sweep_prover.ServiceProver.prove, list[str]()

    def stopped(prover: Any) -> Any:
        raise StoppedError

    def prove(prover: Any, setting: Any, sectors: int) -> Any:
        if done:
            raise StoppedError
        done.append(setting.name)
        return real(prover, setting, sectors)

    flags = [*FLAGS, "--partitions", "1", "--resume", "--commit"]
    monkeypatch.setattr(sweep_prover.ServiceProver, "prove", prove)
    assert bench([*flags, "this"]) == 1
    # nothing that was measured is lost
    assert [row["policy"] for row in rows()] == ALL[:1]
    monkeypatch.setattr(sweep_prover.ServiceProver, "prove", real)
    assert bench([*flags, "this"]) == 0
    assert [row["policy"] for row in rows()] == ALL
    for row in rows():
        assert row["right"] and not row["replanned"]
        assert (row["sectors"], row["devices"]) == (1, 1)
        assert row["partitions"] == row["most_partitions"] == 1
        assert row["waited_for_key_s"] == 0 and 0 < row["busy"] <= 1
        folder = Path(row["run"])
        assert (folder / "trace.json").exists() and not (folder / "lanes.png").exists()
    assert rows()[0]["proof_sha256"] == rows()[1]["proof_sha256"]
    # of the times of the row that was there before
    assert rows()[0]["foretold_ratio"] is None and rows()[1]["foretold_ratio"] > 0
    # all is there: nothing is proved, and the picture is of all
    ROWS.with_suffix(".png").unlink()
    monkeypatch.setattr(sweep_prover.ServiceProver, "__enter__", stopped)
    assert bench([*flags, "this"]) == 0 and ROWS.with_suffix(".png").exists()
    # but not of another commit, nor of whole sectors
    for other in ([*flags, "other"], [*FLAGS, "--resume", "--commit", "this"]):
        assert bench(other) == 1
    assert [row["policy"] for row in rows()] == ALL


def test_repeats_are_not_run_and_ways_of_witnesses_have_rows_of_their_own(
    capsys: pytest.CaptureFixture[str],
) -> None:
    flags = [*FLAGS, "--policies", "two-locks", "--partitions", "1", "--workers", "1,2"]
    for more in ([], ["--no-witness-graph"]):
        assert bench([*flags, "--commit", "x", "--resume", "--json", *more]) == 0
        report = json.loads(capsys.readouterr().out)
        assert [row["workers"] for row in report["rows"]] == [1] and report["left_out"] == []
        name = "two-locks, 2 workers, 1 in flight, key on device"
        assert report["repeats"] == [{"circuit": "window2k", "setting": name, "as_workers": 1}]
    graph, plain = rows()
    assert [row["witness_graph"] for row in rows()] == [True, False]
    assert graph["proof_sha256"] == plain["proof_sha256"] and graph["right"] and plain["right"]
    assert graph["stages_ms"].keys() == plain["stages_ms"].keys()
    said = ["no witness graph" in sweep_table.place_of(row) for row in rows()]
    assert said == [False, True]


def test_a_key_on_the_host_and_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a CPU the places are one, but the way through them is that of a GPU."""
    monkeypatch.setattr(sweep_prover.ServiceProver, "_refuse", lambda *_: None)
    limits = list[int | None]()

    def prepare(device: Any, limit: int | None) -> None:
        limits.append(limit)
        prepare_memory(device, limit)

    monkeypatch.setattr(session, "prepare_memory", prepare)
    flags = ["--policies", "two-locks", "--partitions", "1", "--limits", "48,none"]
    assert bench([*FLAGS, *flags, "--residency", "host"]) == 0
    gb = 10**9
    assert [(r["residency"], r["limit"], r["right"]) for r in rows()] == [
        ("host", None, True),
        ("host", 48 * gb, True),
    ]
    # the key is made with all there is, then moved; in the end the limit is lifted
    assert limits == [None, None, None, 48 * gb, None]


def test_no_time_left_leaves_all_out(capsys: pytest.CaptureFixture[str]) -> None:
    assert bench([*FLAGS, "--seconds", "0.000001", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["left_out"]) == 2 and not ROWS.exists()


def test_rows_that_cannot_be_read_are_said(capsys: pytest.CaptureFixture[str]) -> None:
    ROWS.parent.mkdir(parents=True)
    ROWS.write_text("no row\n")
    assert bench([*FLAGS, "--resume"]) == 2
    assert "no rows of a sweep that could be taken up" in capsys.readouterr().err


def test_a_row_says_that_memory_ran_out(monkeypatch: pytest.MonkeyPatch) -> None:
    real, calls = ops.quotient, list[int]()

    def scarce(*args: Any, **kwargs: Any) -> Any:
        calls.append(1)
        # the first is the warm up's
        if len(calls) == 2:
            raise MemoryError
        return real(*args, **kwargs)

    monkeypatch.setattr(ops, "quotient", scarce)
    assert bench([*FLAGS, "--policies", "two-locks", "--partitions", "1"]) == 0
    (row,) = rows()
    assert row["replanned"] and row["right"] and len(calls) == 3
