"""What the parts of `scheduler/robust_on_gpu.py` share: rows, jobs, configs, commands."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import torch
import yaml

from torchzk import api
from torchzk.backends import load_backend
from torchzk.circuits.registered import ApiVersion, RegisteredSeal, default_seal
from torchzk.circuits.sectors import SECTOR_SHAPES
from torchzk.circuits.synthetic import SectorName, make_sector
from torchzk.circuits.synthetic_jobs import job_text
from torchzk.config import CircuitConfig, Config
from torchzk.timeline import Timeline

TESTS = Path(__file__).parents[1]
DEVICE = torch.device("cuda", 0)
CIRCUIT = ("porep", 8 << 20)
"""Kind and sector size of what is stopped and squeezed."""
FIXED = api.Randomisers(0x5EED0001, 0x5EED0002)


def emit(part: str, *, right: bool, **row: Any) -> bool:
    """Print a row; returns whether it was right."""
    print(json.dumps({"part": part, "right": right, **row}), flush=True)
    return right


def free_vram() -> int:
    """Bytes that the driver has."""
    return torch.cuda.mem_get_info(DEVICE)[0]


def job_file(folder: Path, kind: str, size: int) -> Path:
    """The job of a synthetic sector, also of a size that is there for tests only."""
    name = SECTOR_SHAPES[size].name
    path = folder / f"{kind}-{name}.json"
    if not path.is_file():
        seal = default_seal(size)
        if seal is None:
            # no network has it, but an update does not ask
            text = f"StackedDrg{name}V1_1"
            seal = RegisteredSeal(0, text, size, ApiVersion.V1_1, synthetic=False, interactive=True)
        of = SectorName("robust", seal, 7, 1000)
        sector = make_sector(of, load_backend("torch"), DEVICE, Timeline())
        path.write_text("".join(job_text(sector, kind)))  # type: ignore[arg-type]
    return path


def config(folder: Path, kind: str, size: int, keys: Any) -> Config:
    return Config(
        circuit=CircuitConfig(kind=kind, sector_size=size),  # type: ignore[arg-type]
        keys=keys,
        key_cache=folder / "keys",
        block_cache=folder / "blocks",
        runs=folder / "runs",
        device=str(DEVICE),
    )


def command_flags(folder: Path, caches: Path, kind: str, size: int, keys: str) -> list[str]:
    """A config file for a command: keys in `folder`, constraints in `caches`."""
    path = folder / f"{kind}.yaml"
    made = {
        "circuit": {"kind": kind, "sector_size": size},
        "keys": keys,
        "key_cache": str(folder / "keys"),
        "block_cache": str(caches / "blocks"),
        "runs": str(folder / "runs"),
        "device": str(DEVICE),
    }
    path.write_text(yaml.safe_dump(made))
    return ["--config", str(path), "--json"]


def finished(argv: list[str], timeout: float) -> tuple[int, dict[str, Any], str, float]:
    """A command's exit code, its report, what it said, and its seconds."""
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, *argv], capture_output=True, text=True, timeout=timeout, check=False
    )
    lines = done.stdout.splitlines()
    report = json.loads(lines[-1]) if lines else {}
    return done.returncode, report, done.stderr, time.perf_counter() - start
