"""Killed outright at any moment, nothing half-written is ever taken for a whole file."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from pathlib import Path

import yaml

from child_environment import child_environment
from torchzk.errors import TorchzkError
from torchzk.groth16.vk_file import key_sha256, load_vk

KEY_SHA256 = "bc98ce20d105f322ce42f29dca453b812f79fddf9306b658006fc9a78db3d804"
PARAMS_BYTES = 11_501_496


def start(folder: Path, job: Path, out: Path) -> subprocess.Popen[str]:
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
    return subprocess.Popen(
        [sys.executable, "-m", "torchzk.prove", "--config", config, "--json"]
        + ["--input", job, "--out", out],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=child_environment(),
    )


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


def test_killed_at_random_moments(tmp_path: Path, golden: Path) -> None:
    job, out = golden / "jobs" / "sector2k_a_window1.json", tmp_path / "proof.bin"
    draw = random.Random()
    # the first kills come while the key is made and written, the later ones while it is used
    for moment in (draw.uniform(1, 4), draw.uniform(4, 8), draw.uniform(5, 7), draw.uniform(1, 9)):
        process = start(tmp_path, job, out)
        time.sleep(moment)
        process.kill()
        process.communicate()
        check_whole(tmp_path, out)
        out.unlink(missing_ok=True)
    process = start(tmp_path, job, out)
    stdout, _ = process.communicate(timeout=300)
    report = json.loads(stdout.splitlines()[-1])
    assert process.returncode == 0, report
    assert report["verified"]
    assert report["key_sha256"] == KEY_SHA256
    assert out.read_bytes().hex() == report["proof"]
    check_whole(tmp_path, out)
