"""What a CPU cannot show of interrupts, memory and keys, on a GPU, as JSON lines.

    PYTHONPATH=src:tests python tests/scheduler/robust_on_gpu.py [PART ...] [--folder DIR]

warm     kernels are compiled, jobs made and constraints recorded, so that what follows is short
stop     processes that prove are stopped and killed at random stages: exit codes, files, VRAM
squeeze  another process takes the GPU's memory in mid-proof: equal bytes or a typed error, and
         the same process proves again
sectors  the benchmark proof.porep8m, whose last step proves a sector twenty times: slopes
keys     parameter files of 1.1 GB and of more than 4 GiB: written, loaded, used

Each part is a process with a time limit; what goes wrong in one stops no other. Exits with 1 if
anything was wrong. `--folder` keeps jobs and constraints for the next time.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from robust.common import CIRCUIT, DEVICE, config, emit, finished, job_file
from robust.key_files import KEYS, key_files
from robust.squeeze import squeeze
from robust.stops import stop
from torchzk import api
from torchzk.backends import compile_ahead
from torchzk.errors import TorchzkError

SLOPE = 0.01
"""Growth of memory over twenty sectors, at most."""


def warm(folder: Path) -> bool:
    start = time.perf_counter()
    warmed = compile_ahead("triton", DEVICE)
    emit("warm", right=warmed is not None and not warmed.failed, step="kernels", said=str(warmed))
    for kind, size in (CIRCUIT, *((kind, size) for kind, size, _ in KEYS)):
        job_file(folder, kind, size)
        _ = api.open_session(config(folder, kind, size, "dev")).r1cs
    return emit("warm", right=True, step="jobs and constraints", s=time.perf_counter() - start)


def sectors(folder: Path) -> bool:
    rows_file = folder / "rows.jsonl"
    rows_file.unlink(missing_ok=True)
    argv = ["-m", "torchzk.bench", "proof.porep8m", "--limits", "none", "--runs", "1", "--json"]
    argv += ["--inputs", str(folder / "inputs"), "--out", str(rows_file)]
    code, _, said, seconds = finished(argv, 120)
    rows = [json.loads(line) for line in rows_file.read_text().splitlines()]
    found = [row for row in rows if row.get("step") == "repeated"]
    if code or not found:
        print(said, file=sys.stderr)
        return emit("sectors", right=False, exit_code=code, s=seconds)
    slopes = {name: found[0][name] for name in ("rss_slope", "device_slope", "allocated_slope")}
    ok = all(value is not None and abs(value) <= SLOPE for value in slopes.values())
    sectors_proven = len(found[0]["rss_bytes"])
    return emit("sectors", right=ok, sectors=sectors_proven, s=seconds, **slopes)


PARTS: dict[str, tuple[Callable[[Path], bool], float]] = {
    "warm": (warm, 240),
    "stop": (stop, 150),
    "squeeze": (squeeze, 60),
    "sectors": (sectors, 90),
    "keys": (key_files, 120),
}
"""What runs, and its limit in seconds."""


@contextmanager
def place_for(given: Path | None) -> Iterator[Path]:
    if given is None:
        with tempfile.TemporaryDirectory() as name:
            yield Path(name)
    else:
        given.mkdir(parents=True, exist_ok=True)
        yield given


def one(part: str, folder: Path) -> bool:
    """A part in this process; whether all of it was right."""
    try:
        return PARTS[part][0](folder)
    except (TorchzkError, torch.OutOfMemoryError, subprocess.TimeoutExpired) as e:
        return emit(part, right=False, error=f"{type(e).__name__}: {e}")


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--one", choices=PARTS, help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    unknown = set(args.parts) - set(PARTS)
    if unknown:
        parser.error(f"no part is called {', '.join(sorted(unknown))}")
    if not torch.cuda.is_available():
        raise SystemExit("there is no CUDA device")
    if args.one:
        return int(not one(args.one, args.folder))
    right = True
    with place_for(args.folder) as folder:
        for part in args.parts or PARTS:
            start = time.perf_counter()
            command = [sys.executable, __file__, "--one", part, "--folder", str(folder)]
            # what a part starts ends with it
            child = subprocess.Popen(command, start_new_session=True)
            try:
                code: int | str = child.wait(PARTS[part][1])
            except subprocess.TimeoutExpired:
                os.killpg(child.pid, signal.SIGKILL)
                child.wait()
                code = "timed out"
            seconds = time.perf_counter() - start
            right &= emit(part, right=code == 0, step="all", exit_code=code, s=seconds)
    return int(not right)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
