"""`python -m torchzk.simulate`: tables, JSON, the sinks of real runs; all without torch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from child_environment import run_python
from torchzk import simulate
from torchzk.scheduler.simulation.outcome import simulate as play
from torchzk.scheduler.simulation.picture import record_of, stretch_of
from torchzk.scheduler.simulation.scenario import load_scenario, shipped_scenarios


def call(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, dict[str, Any], str]:
    code = simulate.run([*argv, "--json"])
    out, err = capsys.readouterr()
    return code, json.loads(out), err


def test_all_shipped_ones_against_what_was_published(capsys: pytest.CaptureFixture[str]) -> None:
    code, report, err = call(capsys)
    assert code == 0
    assert list(report["outcomes"]) == [path.stem for path in shipped_scenarios()]
    eight = report["outcomes"]["cuzk_phase8"]
    assert eight["compared"]["seconds_a_proof"] == pytest.approx(37.46, abs=0.01)
    assert "cuzk_phase8" in err and "+0.2%" in err


def test_flags_go_before_the_scenario(capsys: pytest.CaptureFixture[str]) -> None:
    argv = ("cuzk_phase8", "--policy", "whole", "--workers", "3", "--devices", "2")
    code, report, err = call(capsys, *argv, "--in-flight", "4", "--memory", "13GiB")
    outcome = report["outcomes"]["cuzk_phase8"]
    # two devices take 57.46 / 2 s, but the ten preparers 36.5
    assert code == 0 and outcome["seconds_a_proof"] == pytest.approx(36.5)
    assert outcome["limit"] == "host"
    # what was published is of another schedule
    assert outcome["published"]["seconds_a_proof"] == 0.0 and "off:" not in err
    assert "the compute lock" in err


def test_it_writes_a_trace_and_a_picture(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "new" / "folder"
    code, report, _ = call(capsys, "porep32g_resident", "--out", str(folder))
    assert code == 0
    assert report["files"] == [str(folder / "trace.json"), str(folder / "timeline.png")]
    events = json.loads((folder / "trace.json").read_text())["traceEvents"]
    lanes = {e["args"]["name"] for e in events if e["name"] == "thread_name"}
    assert {"device 0 kernels", "device 0 compute lock", "device 0 worker 2", "reading 1"} <= lanes
    outcome = play(load_scenario("porep32g_resident"))
    kernels = sum(1 for e in events if e.get("cat") == "stage" and e["name"] == "quotient")
    assert kernels == len(outcome.played.record.partitions)
    assert (folder / "timeline.png").read_bytes().startswith(b"\x89PNG")


def test_a_picture_shows_a_stretch_without_a_crowd_of_preparers() -> None:
    outcome = play(load_scenario("cuzk_phase8"))
    whole, stretch = record_of(outcome), stretch_of(outcome, 0.5)
    assert stretch.seconds == pytest.approx(0.5 * outcome.seconds_a_proof)
    assert any(span.lane.startswith("preparer") for span in whole.spans)
    assert all(span.lane.startswith("device 0") for span in stretch.spans)


def test_a_recommendation_with_its_reasons(capsys: pytest.CaptureFixture[str]) -> None:
    code, report, err = call(capsys, "cuzk_phase8", "--recommend")
    said = report["recommended"]
    assert code == 0 and said["own"]["workers"] == 2
    assert said["smallest"]["budget_bytes"] == 16 << 30
    assert any("one worker fewer" in reason for reason in said["because"])
    assert "because" in err and "smallest budget" in err


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (("cuzk_phase5",), "no such scenario; did you mean cuzk_phase"),
        (("--recommend",), "--out and --recommend take one scenario"),
        (("cuzk_phase8", "--memory", "1GB"), "'1GB' is no size"),
        (("cuzk_phase8", "--memory", "1GiB"), "take a larger device"),
        (("cuzk_phase8", "--workers", "0"), "workers: must be 1 to 10000, is 0"),
        (("cuzk_phase8", "--policy", "three"), "invalid choice"),
    ],
)
def test_refuses(argv: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, report, _ = call(capsys, *argv)
    assert code == 2 and report["error"] == "ConfigError"
    assert message in report["message"]


def test_torch_is_not_needed() -> None:
    script = (
        "import sys; sys.modules['torch'] = None\n"
        "from torchzk import simulate\n"
        "sys.exit(simulate.run(['cuzk_phase9', '--json']))"
    )
    done = run_python("-c", script)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["ok"] is True
