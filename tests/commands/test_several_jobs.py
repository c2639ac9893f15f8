"""Several jobs by one command: those that can be are proved, and the exit code says of the rest."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest
import yaml

from scheduler.small_proofs import ProvableCircuit
from torchzk import prove
from torchzk.circuits.post_shapes import post_shape
from torchzk.scheduler import kernel_profile, session


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """The command in a folder of its own, with the small circuit; its code and its report."""
    circuit = ProvableCircuit(post_shape("window", 2048))
    monkeypatch.setattr(session, "get_circuit", lambda kind, size: circuit)
    monkeypatch.chdir(tmp_path)
    config = {"circuit": {"kind": "window", "sector_size": 2048}, "keys": "dev-in-memory"}
    Path("small.yaml").write_text(yaml.safe_dump(config | {"device": "cpu", "workers": 2}))

    def call(*flags: object) -> tuple[int, dict[str, Any]]:
        code = prove.run(["--config", "small.yaml", "--json", *map(str, flags)])
        return code, json.loads(capsys.readouterr().out.splitlines()[-1])

    return call


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[tuple[bool, bool]]:
    """When the profiler was asked for: in the main thread, with workers there."""
    seen: list[tuple[bool, bool]] = []

    def look(_: float, __: threading.Event) -> list[Any]:
        workers = [t for t in threading.enumerate() if " worker " in t.name]
        seen.append((threading.current_thread() is threading.main_thread(), bool(workers)))
        return []

    monkeypatch.setattr(kernel_profile, "look_at_kernels", look)
    return seen


def attached_before_workers(looks: list[tuple[bool, bool]], report: dict[str, Any]) -> bool:
    """The first profile takes seconds, in which workers' launches would be slow."""
    stages = list(report["stages"])
    order = [stages.index(name) for name in ("make key", "attach profiler", "witness")]
    # at nothing, then at kernels
    (first, then) = looks
    return first == (True, False) and not then[0] and order == sorted(order)


def write(name: str, *seeds: int, bad: str = "") -> Path:
    path = Path(name)
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({"seeds": seeds, "bad": bad}))
    return path


def test_a_folder_and_a_file(run: Any, looks: list[tuple[bool, bool]]) -> None:
    write("jobs/a.json", 1, 2)
    write("jobs/b.json", 3)
    flags = ["--out", "proofs", "--profile-kernels", 1]
    code, report = run("--input", "jobs", "--input", write("c.json", 4), *flags)
    assert (code, report["ok"], report["verified"]) == (0, True, True)
    assert [job["name"] for job in report["jobs"]] == ["a", "b", "c"]
    for job in report["jobs"]:
        proof = Path("proofs", f"{job['name']}.bin").read_bytes()
        assert job["proof"] == proof.hex() and len(proof) == 192 * job["partitions"]
        assert job["ok"] and job["verified"] and job["zero_knowledge"] and job["seconds"] > 0
    assert report["insecure_key"] and any("INSECURE" in text for text in report["warnings"])
    # what stages took, all jobs together; how the work was spread is for the timeline
    assert {"read input", "check input", "witness", "verify"} <= report["stages"].keys()
    assert not {"compute", "reading"} & report["stages"].keys()
    assert report["devices"]["cpu"]["workers"] == 2
    assert attached_before_workers(looks, report)
    trace = json.loads((Path(report["run"]) / "trace.json").read_text())
    named = {str(event.get("args", {}).get("name")) for event in trace["traceEvents"]}
    assert {"cpu worker 0", "cpu worker 1", "cpu compute lock", "a partition 1"} <= named


def test_the_screen_says_how_busy_workers_were(
    run: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ["--config", "small.yaml", "--input", str(write("a.json", 1, 2)), "--input"]
    assert prove.run([*flags, str(write("b.json", 3))]) == 0
    shown = capsys.readouterr().err
    assert "busy, by stages" in shown and "cpu compute lock" in shown


def test_bad_ones_fail_alone(run: Any) -> None:
    bad, good = write("bad.json", 1, bad="input"), write("good.json", 2)
    code, report = run("--input", bad, "--input", good)
    assert (code, report["ok"], report["exit_code"]) == (3, False, 3)
    # as one job alone would have said it
    assert (report["error"], report["message"]) == ("InputError", "bad: this job does not hold")
    refused, proven = report["jobs"]
    assert (refused["error"], refused["message"]) == ("InputError", "this job does not hold")
    assert proven["ok"] and Path(proven["out"]).parent == Path(report["run"])


def test_one_input_is_the_command_it_was(run: Any, looks: list[tuple[bool, bool]]) -> None:
    flags = ["--out", "proof.bin", "--profile-kernels", 1]
    code, report = run("--input", write("one.json", 1, 2), *flags)
    assert attached_before_workers(looks, report)
    assert code == 0 and "jobs" not in report
    assert Path("proof.bin").read_bytes().hex() == report["proof"]


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--input", "a.json", "--input", "a.json"], "a.json is given twice"),
        (["--input", "a.json", "--input", "a.txt"], "two jobs are called a"),
        (["--input", "empty"], "there is no job in empty"),
        (["--input", "a.json", "--input", "b.json", "--check"], "are for one job"),
        (["--input", "a.json", "--input", "b.json", "--out", "a.json"], "to be a folder"),
        (["--input", "a.json", "--workers", "0"], "workers: must be 1 to 64"),
    ],
)
def test_refused(run: Any, flags: list[str], message: str) -> None:
    for name in ("a.json", "a.txt", "b.json"):
        write(name, 1)
    Path("empty").mkdir()
    code, report = run(*flags)
    assert (code, report["error"]) == (2, "ConfigError") and message in report["message"]
