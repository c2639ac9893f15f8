"""Under what conditions rows were measured: device, clocks, versions, commit."""

from __future__ import annotations

import datetime
import subprocess
from pathlib import Path
from typing import Any

import torch

from torchzk.scheduler import machine

_CLOCKS = {
    "clocks.sm": "sm_clock_mhz",
    "clocks.mem": "memory_clock_mhz",
    "power.draw": "power_w",
    "temperature.gpu": "temperature_c",
    "pstate": "power_state",
    "driver_version": "driver",
}
"""What `nvidia-smi` calls them, and rows do."""
UNKNOWN = "unknown"


def standing(device: torch.device, commit: str | None) -> dict[str, Any]:
    """What holds for a whole session.

    Args:
        device: What is measured.
        commit: What rows say of the code; from git if None, `unknown` where there is none.
    """
    versions = machine.versions()
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else _cpu_name()
    dirty = None
    if commit is None:
        commit = _git("rev-parse", "--short=12", "HEAD") or UNKNOWN
        changes = _git("status", "--porcelain", "--untracked-files=no")
        dirty = None if changes is None else bool(changes)
    return {
        "device": name,
        "torch": versions["torch"],
        "cuda": torch.version.cuda,
        "triton": versions["triton"],
        "python": versions["python"],
        "commit": commit,
        "dirty": dirty,
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }


def clocks(device: torch.device) -> dict[str, Any]:
    """Clocks, power and driver of a CUDA device as they are now; None for what is not known."""
    found: dict[str, Any] = dict.fromkeys(_CLOCKS.values())
    if device.type != "cuda":
        return found
    uuid = getattr(torch.cuda.get_device_properties(device), "uuid", None)
    command = ["nvidia-smi", f"--query-gpu={','.join(_CLOCKS)}", "--format=csv,noheader,nounits"]
    if uuid is not None:
        command.append(f"--id=GPU-{str(uuid).removeprefix('GPU-')}")
    line = _output(command)
    values = [v.strip() for v in line.splitlines()[0].split(",")] if line else []
    if len(values) == len(_CLOCKS):
        found |= {k: _number(v) for k, v in zip(_CLOCKS.values(), values, strict=True)}
    return found


def _number(text: str) -> int | float | str:
    try:
        value = float(text)
    except ValueError:
        return text
    return int(value) if value.is_integer() else value


def _cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    models = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return f"{machine.cores()} cores of {next(models, 'a CPU')}"


def _git(*arguments: str) -> str | None:
    return _output(["git", "-C", str(Path(__file__).parent), *arguments])


def _output(command: list[str]) -> str | None:
    """What a program prints; None if it fails or is not there."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
