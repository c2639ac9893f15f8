"""Benchmarks of whole proofs: names, inputs, figures, tables, and what a failing step costs."""

from __future__ import annotations

import io
import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch
from rich.console import Console

from torchzk import api, ops
from torchzk.bench import performance, proof_measures, proof_session
from torchzk.bench.__main__ import run
from torchzk.bench.cases import BENCHMARKS
from torchzk.bench.proof_cases import PLAN, PROOFS, Target, is_proof, select_proofs
from torchzk.bench.proof_inputs import Inputs, inputs_agree
from torchzk.bench.proof_table import print_proofs
from torchzk.circuits.registry import get_circuit
from torchzk.errors import ConfigError, ResourceError
from torchzk.scheduler.device_clock import DeviceClock
from torchzk.scheduler.stages import DeviceMemory, DeviceSpan, RunRecord
from torchzk.scheduler.synthetic_input import MINER_ID, SECTOR_NUMBER
from torchzk.timeline import Span, Timeline

MS = 1_000_000
GIB = 1 << 30
BY_NAME = {p.name: p for p in PROOFS}


def test_names() -> None:
    names = [p.name for p in PROOFS]
    assert len(set(names)) == len(names)
    assert all(is_proof(name) for name in names)
    assert not any(is_proof(b.name) for b in BENCHMARKS)
    assert [p.short for p in select_proofs(["proof.porep32g", "ntt"])] == ["porep32g"]
    assert {p.kind for p in select_proofs(["proof.*32g"])} == (
        {"porep", "winning", "window", "update"}
    )
    assert select_proofs(["proof"]) == list(PROOFS)
    assert select_proofs([]) == []
    with pytest.raises(ConfigError, match="no proof is called proof.porep33g"):
        select_proofs(["proof.porep33g"])


def test_what_must_be_reached_is_that_of_the_project() -> None:
    porep = BY_NAME["proof.porep32g"]
    assert (porep.partition, porep.whole, porep.keys) == (
        (Target(1.2, 0.88), Target(14, 9.5), Target(60, 15))
    )
    assert porep.limits == (80 * 10**9, 48 * 10**9, 24 * 10**9, 16 * 10**9)
    assert [BY_NAME[f"proof.{kind}32g"].partition for kind in ("winning", "window", "update")] == [
        Target(0.5, 0.15),
        Target(4.5, 3.4),
        Target(1.4, 0.95),
    ]


@pytest.mark.parametrize("short", ["porep2k", "winning2k", "window2k", "update2k"])
def test_jobs_are_made_once_and_are_those_of_the_reference(short: str, tmp_path: Path) -> None:
    benchmark = BY_NAME[f"proof.{short}"]
    inputs = Inputs(tmp_path / "jobs", ops, torch.device("cpu"))
    path, made = inputs.job(benchmark, Timeline())
    before = path.stat().st_mtime_ns
    assert made and path == tmp_path / "jobs" / f"{short}.json"
    assert inputs.job(benchmark, Timeline()) == (path, False)
    assert path.stat().st_mtime_ns == before
    circuit = get_circuit(benchmark.kind, benchmark.sector_size)
    job = circuit.read_job(path, miner_id=MINER_ID, sector_number=SECTOR_NUMBER)
    assert inputs_agree(benchmark, circuit, job)
    # of another sector they are others
    other = BY_NAME["proof.porep2k" if short != "porep2k" else "proof.window2k"]
    assert not inputs_agree(other, circuit, job)


def run_of(start: int, *stages: tuple[str, float], device: bool = True) -> RunRecord:
    """Stages of a partition in ms, one millisecond between them, on the device and on the host."""
    spans, on_device, at = [], [], start
    for k, (name, ms) in enumerate(stages):
        end = at + round(ms * MS)
        spans.append(Span("partition 0", name, at, end + MS // 2))
        most = DeviceMemory((k + 1) * GIB, (k + 2) * GIB)
        on_device.append(DeviceSpan(spans[-1], Span("cuda:0", name, at, end), most))
        at = end + MS
    return RunRecord("t", tuple(spans), device=tuple(on_device) if device else ())


def test_times_are_medians_by_the_clock_of_the_device() -> None:
    runs = [run_of(10 * MS, ("witness", 36), ("msm h", h)) for h in (600, 590, 700)]
    times = proof_measures.times_of(runs)
    assert times["p50_s"] == pytest.approx(0.637)
    assert times["runs_s"] == pytest.approx([0.627, 0.637, 0.737])
    assert times["stages_ms"] == pytest.approx({"witness": 36, "msm h": 600})
    assert times["idle_ms"] == pytest.approx(1) and times["clock"] == "device"
    host = proof_measures.times_of([run_of(0, ("witness", 36), ("msm h", 600), device=False)])
    assert host["stages_ms"] == pytest.approx({"witness": 36.5, "msm h": 600.5})
    assert host["clock"] == "host" and host["idle_ms"] == 0
    assert host["p50_s"] == pytest.approx(0.6375)


def test_memory_is_held_against_the_plan() -> None:
    run = run_of(0, ("witness", 1), ("msm h", 2))
    memory = proof_measures.memory_of(run, {"witness": GIB, "msm h": 2 * GIB + GIB // 10})
    assert (memory["peak_bytes"], memory["reserved_bytes"]) == (2 * GIB, 3 * GIB)
    assert memory["stages_peak_bytes"] == {"witness": GIB, "msm h": 2 * GIB}
    assert memory["planned_over_peak"] == pytest.approx(1.05)
    assert memory["stages_over_plan"] == []
    low = proof_measures.memory_of(run, {"witness": GIB - 1, "msm h": 3 * GIB, "msm l": 1})
    assert low["stages_over_plan"] == ["witness"] and low["planned_over_peak"] == 1.5
    none = proof_measures.memory_of(run_of(0, ("witness", 1), device=False), {})
    assert none["peak_bytes"] is none["planned_bytes"] is none["planned_over_peak"] is None


def test_only_spans_since_a_step_began_count() -> None:
    record = run_of(0, ("witness", 1), ("msm h", 2), ("msm l", 3))
    part = proof_measures.since(record, 1)
    assert [s.name for s in part.spans] == [d.of.name for d in part.device] == ["msm h", "msm l"]
    assert proof_measures.since(record, 0, "host").spans == ()


def test_figures_and_slopes() -> None:
    held = proof_measures.held_against(1.0, Target(1.2, 0.88))
    assert (held["reaches_must"], held["reaches_goal"]) == (True, False)
    # a plan that says less than was there is no good one
    for figure, verdict in ((0.99, False), (1.0, True), (1.1, True), (1.2, False)):
        assert proof_measures.held_against(figure, PLAN)["reaches_must"] is verdict
    none = proof_measures.held_against(None, Target(1.2))
    assert none["reaches_must"] is none["reaches_goal"] is none["figure"] is None
    assert proof_measures.slope([100, 100, 100]) == 0
    assert proof_measures.slope([90, 100, 110]) == pytest.approx(0.2)
    assert proof_measures.slope([5]) == 0


def sample_rows() -> list[dict[str, Any]]:
    """Rows as `proofs` makes them, with the figures that a table shows."""
    times = proof_measures.times_of([run_of(0, ("quotient", 213), ("msm h", 593))])
    run = run_of(0, ("quotient", 213), ("msm h", 593))
    memory = proof_measures.memory_of(run, {"msm h": 2 * GIB + 8 * GIB // 100})
    common = {"right": True, "seconds": 9.0, "peak_rss_bytes": 20 * GIB}
    head = {"name": "proof.porep32g", **common}
    plan = proof_measures.held_against(memory["planned_over_peak"], Target(1.1, 1.05))
    partition = {**times, **memory, "plan": plan, "proof_sha256": "00", "in_turn": False}
    return [
        head | {"step": "keys"} | proof_measures.held_against(14.0, Target(60, 15)),
        head
        | {"step": "partition", "limit_bytes": None, "key_on": "device"}
        | {"floors_ms": {"quotient": 174.0, "msm h": 380.0}}
        | {"host_rss": proof_measures.held_against(20.0 * GIB, Target(64.0 * GIB, 24.0 * GIB))}
        | partition
        | proof_measures.held_against(0.807, Target(1.2, 0.88)),
        head
        | {"step": "whole", "partitions": 10, "proof_sha256": "00"}
        | proof_measures.held_against(10.0, Target(14, 9.5)),
        head
        | {"step": "24 GB", "limit_bytes": 24 * 10**9, "key_on": "host", "slower": 2.5}
        | partition
        | {"in_turn": True}
        | proof_measures.held_against(2.5, Target(goal=3)),
        head | {"step": "16 GB", "error": "ResourceError: it does not fit", "right": False},
    ]


def test_the_table_and_the_stages() -> None:
    log = io.StringIO()
    print_proofs(Console(width=60, file=log), sample_rows())
    lines = [line.split() for line in log.getvalue().splitlines() if line.strip()]
    by_first = {line[0]: line for line in lines}
    assert by_first["keys"][1:7] == ["14.0", "s", "60", "s", "15", "s"]
    assert by_first["partition"][1:3] == ["0.807", "s"]
    assert by_first["partition"][7:12] == ["2.0", "GiB", "2.1", "GiB", "1.040x"]
    assert by_first["whole,"][-1] == "verified"
    assert " ".join(by_first["24"]).endswith("host, in turn same bytes, 2.50x")
    assert "host RSS until then 20.0 GiB 64.0 GiB 24.0 GiB" in {" ".join(line) for line in lines}
    assert by_first["16"][-1] == "ResourceError"
    assert by_first["quotient"] == ["quotient", "174.0", "213.0", "213.0"]
    assert by_first["first"] == ["first", "to", "last", "554.0", "807.0", "807.0"]


def test_rows_go_into_the_page_and_nothing_else_changes(tmp_path: Path) -> None:
    shipped = Path(__file__).parents[2] / "docs" / "performance.md"
    page, rows = tmp_path / "page.md", tmp_path / "rows.jsonl"
    before = performance.filled(shipped.read_text(), [])
    page.write_text(before)
    rows.write_text("".join(json.dumps(row) + "\n" for row in sample_rows()))
    for _ in range(2):
        assert performance.run(["--rows", str(rows), "--page", str(page)]) == 0
    text = page.read_text()
    assert "| porep32g, partition | 0.807 s | 1.2 s | 0.88 s | goal |" in text
    assert "| porep32g, whole, 10 partitions | 10.000 s | 14 s | 9.5 s | must |" in text
    assert "| porep32g, host RSS | 20.0 GiB | 64.0 GiB | 24.0 GiB | goal |" in text
    assert "| quotient | 213.0 | 26.4% | 174.0 | 1.22 |" in text
    assert "| porep32g | 24 GB | 0.807 | host, in turn | 2.15 | 2.23 | 1.040 |" in text
    assert "16 GB" not in text.partition("| proof | memory |")[2].partition("<!--")[0]
    assert text.count(performance.NOTHING) == before.count(performance.NOTHING) - 3
    # without its tables it is the page it was
    assert performance.filled(text, []) == before


def test_a_page_with_an_unknown_table_is_refused() -> None:
    with pytest.raises(ConfigError, match="marks rows: stages.porep33g"):
        performance.filled("<!-- rows: stages.porep33g -->\n<!-- end -->", [])


def bench(folder: Path, *arguments: str) -> tuple[int, list[dict[str, Any]]]:
    """The command on a CPU, and the rows it left."""
    rows = folder / "rows.jsonl"
    common = ("--device", "cpu", "--inputs", str(folder / "jobs"), "--out", str(rows))
    code = run([*arguments, *common, "--commit", "abc"])
    return code, [json.loads(line) for line in rows.read_text().splitlines()]


def test_a_step_that_fails_leaves_its_row_and_those_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)

    def refuse(*_: object) -> None:
        raise ResourceError("the key takes 47 GiB, 16 are there")

    monkeypatch.setattr(api, "get_keys", refuse)
    code, rows = bench(tmp_path, "proof.window2k")
    assert code == 1
    assert [(r["step"], r["right"]) for r in rows] == [
        ("input", True),
        ("read", True),
        ("constraints", True),
        ("keys", False),
    ]
    assert rows[3]["error"] == "ResourceError: the key takes 47 GiB, 16 are there"
    assert all(r["commit"] == "abc" and r["seconds"] > 0 for r in rows)
    err = capsys.readouterr().err
    assert "WRONG: proof.window2k" in err and "47 GiB, 16 are there" in err
    # the timeline of the benchmark is there, as that of a proof is
    (folder,) = (tmp_path / "runs").iterdir()
    assert (folder / "timeline.png").is_file()


def test_a_fault_ends_the_benchmark_and_leaves_its_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    def fault(*_: object) -> None:
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    monkeypatch.setattr(api, "get_keys", fault)
    code, rows = bench(tmp_path, "proof.window2k", "proof.winning2k")
    assert code == 1
    # that of window2k would come next
    assert [r["name"] for r in rows] == ["proof.winning2k"] * 4
    assert rows[3]["error"].startswith("RuntimeError: CUDA error") and not rows[3]["right"]


@dataclass(frozen=True)
class Moment:
    """A moment of the host's clock, which is past at once."""

    at: float

    def synchronize(self) -> None:
        """There is nothing to wait for."""

    def elapsed_time(self, other: Moment) -> float:
        return 1e3 * (other.at - self.at)


class HostGauge:
    """The host, asked as a device is; its memory is what the process has resident."""

    lane = "host as a device"

    def idle(self) -> None:
        """It has no queue."""

    def mark(self) -> Moment:
        return Moment(time.perf_counter())

    def most_memory(self) -> DeviceMemory:
        rss = psutil.Process().memory_info().rss
        return DeviceMemory(rss, rss)


@pytest.mark.full("one to three minutes: makes a key, proves a window PoSt of 2 KiB five times")
def test_a_whole_benchmark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(proof_session, "clock_of", lambda _: DeviceClock(HostGauge()))
    code, rows = bench(tmp_path, "proof.window2k", "--limits", "2", "--runs", "1")
    assert code == 0
    by_step = {row["step"]: row for row in rows}
    assert list(by_step) == (
        ["input", "read", "constraints", "keys", "partition", "whole", "key to host", "2 GB"]
    )
    partition, whole, limited = (by_step[step] for step in ("partition", "whole", "2 GB"))
    assert partition["proof_sha256"] == whole["proof_sha256"] == limited["proof_sha256"]
    assert (partition["key_on"], limited["key_on"]) == ("device", "host")
    assert {"witness", "products", "quotient", "msm h", "msm b_g2"} <= set(partition["stages_ms"])
    assert whole["figure"] > whole["p50_s"] > sum(whole["stages_ms"].values()) / 1e3 - 0.5
    for row in (partition, whole, limited):
        assert row["clock"] == "device"
        # of a CPU the plan is a guess, and of the whole process
        assert row["planned_over_peak"] == row["planned_bytes"] / row["peak_bytes"]
        assert set(row["stages_planned_bytes"]) <= set(row["stages_peak_bytes"])
    assert limited["slower"] == limited["p50_s"] / partition["p50_s"]
    assert "same bytes" in capsys.readouterr().err
