"""Stopped by a signal or killed outright at any stage, nothing half-written is left for whole."""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from signal import SIGINT, SIGKILL, SIGTERM

import pytest
import yaml

from child_environment import child_environment
from stop_at_stage import stages_of
from torchzk import cli
from torchzk.errors import TorchzkError
from torchzk.groth16.vk_file import key_sha256, load_vk
from torchzk.scheduler import chrome_trace, sinks
from torchzk.scheduler.sinks import open_run, timeline
from torchzk.scheduler.stages import RunRecord

KEY_SHA256 = "bc98ce20d105f322ce42f29dca453b812f79fddf9306b658006fc9a78db3d804"
PARAMS_BYTES = 11_501_496
SCRIPT = Path(__file__).parents[1] / "stop_at_stage.py"
GOLDEN = Path(__file__).parents[1] / "golden"
JOB = GOLDEN / "jobs" / "sector2k_a_window1.json"


def flags(folder: Path, out: Path) -> list[str]:
    config = folder / "window.yaml"
    made = {
        "circuit": {"kind": "window", "sector_size": 2048},
        "keys": "dev",
        "key_cache": "cache",
        "block_cache": "blocks",
        "runs": "runs",
        "device": "cpu",
    }
    config.write_text(yaml.safe_dump(made))
    return ["--config", str(config), "--json", "--input", str(JOB), "--out", str(out)]


def start(*argv: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, *argv],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=child_environment(),
    )


def partial_files(folder: Path) -> list[Path]:
    return sorted(folder.rglob(".*.partial"))


def check_whole(folder: Path, out: Path) -> None:
    """Whatever goes by the name of a key or a proof is whole."""
    params, vk = (folder / "cache" / f"window_2048.{suffix}" for suffix in ("params", "vk"))
    assert not params.exists() or params.stat().st_size == PARAMS_BYTES
    # the mark of an insecure key is there before the key is
    assert not params.exists() or params.with_suffix(".meta").exists()
    if vk.exists():
        try:
            assert key_sha256(load_vk(vk)) == KEY_SHA256
        except TorchzkError as e:
            raise AssertionError("a half-written verifying key") from e
    assert not out.exists() or out.stat().st_size == 192


def prove_whole(folder: Path, out: Path) -> None:
    """What is left serves the next run, which sweeps what nobody will finish."""
    stdout, _ = start("-m", "torchzk.prove", *flags(folder, out)).communicate(timeout=600)
    report = json.loads(stdout.splitlines()[-1])
    assert report["ok"] and report["verified"], report
    assert report["key_sha256"] == KEY_SHA256
    assert out.read_bytes().hex() == report["proof"]
    check_whole(folder, out)
    left = [path for path in partial_files(folder) if "runs" not in path.parts]
    assert left == []


def stopped_at(
    stage: str, number: signal.Signals, folder: Path, out: Path, seconds: float = 0.01
) -> None:
    child = start(str(SCRIPT), stage, str(int(number)), str(seconds), *flags(folder, out))
    stdout, stderr = child.communicate(timeout=600)
    if number == SIGKILL:
        assert child.returncode == -SIGKILL, stderr
    else:
        assert child.returncode == 128 + number, stderr
        report = json.loads(stdout.splitlines()[-1])
        assert (report["error"], report["exit_code"]) == ("Interrupted", child.returncode)
        assert "Traceback" not in stderr and "Exception ignored" not in stderr
        # a log that takes too long is given up as it is
        assert not [path for path in partial_files(folder) if "runs" not in path.parts]
    assert not out.exists()
    check_whole(folder, out)


@pytest.fixture(scope="module")
def cached(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which a key was being written when its process was killed, and was made later."""
    folder = tmp_path_factory.mktemp("cached")
    out = folder / "proof.bin"
    stopped_at("setup: l", SIGKILL, folder, out)
    (left,) = partial_files(folder)
    assert left.name.startswith(".window_2048.params.")
    prove_whole(folder, out)
    return folder


def with_caches(cached: Path, folder: Path) -> Path:
    for name in ("cache", "blocks"):
        shutil.copytree(cached / name, folder / name)
    return folder


@pytest.mark.parametrize(("stage", "number"), [("quotient", SIGINT), ("msm b_g2", SIGKILL)])
def test_stopped_while_proving(
    stage: str, number: signal.Signals, cached: Path, tmp_path: Path
) -> None:
    stopped_at(stage, number, with_caches(cached, tmp_path), tmp_path / "proof.bin")


def test_stopped_while_a_key_is_written(tmp_path: Path) -> None:
    stopped_at("setup: a", SIGTERM, tmp_path, tmp_path / "proof.bin")


@pytest.mark.full("a process for every stage")
@pytest.mark.parametrize("number", [SIGINT, SIGTERM, SIGKILL])
def test_stopped_at_every_stage(number: signal.Signals, cached: Path, tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    whole.mkdir()
    prove_whole(whole, whole / "proof.bin")
    first = stages_of(whole)
    # with a key and constraints that are there
    prove_whole(whole, whole / "proof.bin")
    again = stages_of(whole)
    assert {"record", "make key", "quotient"} <= first.keys() and "quotient" in again
    for stage, seconds in (first | again).items():
        folder = tmp_path / stage.replace(" ", "_")
        folder.mkdir()
        if stage in again:
            with_caches(cached, folder)
        # a little into it, even where it is short
        stopped_at(stage, number, folder, folder / "proof.bin", min(0.01, seconds / 4))
        if partial_files(folder):
            prove_whole(folder, folder / "proof.bin")


@pytest.mark.parametrize("number", [SIGINT, SIGTERM])
def test_stopped_while_the_run_is_written_down(
    number: signal.Signals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The proof is whole by then, and so is the log, if that takes no longer than a moment."""
    monkeypatch.setattr(sinks, "_GRACE", 300.0)
    warnings: list[str] = []
    writing, sent = threading.Event(), threading.Event()
    write = chrome_trace.write_trace

    def slow(record: RunRecord, path: Path) -> None:
        writing.set()
        assert sent.wait(60)
        write(record, path)

    monkeypatch.setattr(chrome_trace, "write_trace", slow)

    def stop() -> None:
        writing.wait()
        os.kill(os.getpid(), number)
        sent.set()

    def command(args: argparse.Namespace, screen: cli.Screen) -> cli.Report:
        with open_run(tmp_path, "test", warnings.append, {}) as run, timeline(run).span("all"):
            threading.Thread(target=stop, daemon=True).start()
        return {}

    before = {n: signal.getsignal(n) for n in (SIGINT, SIGTERM)}
    try:
        assert cli.execute(cli.Parser("torchzk.test", ""), command, []) == 128 + number
    finally:
        for n, handler in before.items():
            signal.signal(n, handler)
    (folder,) = tmp_path.iterdir()
    kinds = sorted(path.name.partition(".")[0] for path in folder.iterdir())
    assert kinds == ["events", "timeline", "trace"] and warnings == []


@pytest.mark.full("what comes between stages is met by chance")
def test_killed_at_random_moments(tmp_path: Path) -> None:
    out = tmp_path / "proof.bin"
    draw = random.Random()
    # the first kills come while the key is made and written, the later ones while it is used
    for moment in (draw.uniform(1, 4), draw.uniform(4, 8), draw.uniform(5, 7), draw.uniform(1, 9)):
        process = start("-m", "torchzk.prove", *flags(tmp_path, out))
        time.sleep(moment)
        process.kill()
        process.communicate()
        check_whole(tmp_path, out)
        out.unlink(missing_ok=True)
    prove_whole(tmp_path, out)
