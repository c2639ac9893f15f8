"""What only a GPU can show of the service, as JSON lines; what can be shown without one, there.

    PYTHONPATH=src:tests python tests/serving/service_on_gpu.py [PART ...] [--folder DIR]

kinds    a client of cuzk has all kinds at 2 KiB proved, each damaged first, and makes all calls
latency  a winning PoSt behind a hundred PoRep, and what the service adds to a proof
squeeze  another process takes the GPU's memory: typed errors or proofs, and the service goes on

Each part is a process with a service of its own; all of them have 150 s, or `--limit`. Exits with 1
if anything was wrong. `--folder` keeps keys and constraints for the next time, `--out` gets rows as
`runs/bench/service.jsonl` has them. Without a GPU the kinds are PoSt, and no memory is taken.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch

from child_environment import child_environment, run_python
from robust.common import emit
from serving.real_jobs import (
    DEVICE,
    FLAGS,
    IDS,
    JOBS,
    ON_CUDA,
    config_of,
    unpack,
    verify,
)
from serving.services import REAL, cuzk_client, make_stubs, service
from serving.squeezed import squeezed
from torchzk.bench import conditions

GOLDEN = Path(__file__).parents[1] / "golden"
KINDS = ("winning", "window", "update", "porep") if ON_CUDA else ("winning", "window")
MANY = "porep" if ON_CUDA else "window"
"""What an urgent proof waits behind, and what is squeezed."""
ROWS = "rows.jsonl"


def fresh(folder: Path, part: str) -> Path:
    """A folder of jobs that nobody had yet."""
    made = folder / f"{part}-{time.time_ns()}"
    made.mkdir()
    return made


def keep(folder: Path, **row: Any) -> None:
    """Add a row for `--out`."""
    with (folder / ROWS).open("a") as rows:
        rows.write(json.dumps(row) + "\n")


def kinds(folder: Path) -> bool:
    place, keys = fresh(folder, "kinds"), folder / "keys"
    stubs = place / "stubs"
    (stubs / "jobs").mkdir(parents=True)
    make_stubs(stubs)
    jobs = {kind: unpack(GOLDEN / JOBS[kind], stubs / "jobs", kind) for kind in KINDS}
    began = time.perf_counter()
    with service(config_of(place, keys, KINDS), REAL, place / "log") as (process, where):
        started = time.perf_counter() - began
        said = cuzk_client(stubs, where, "real")
        asked = time.perf_counter() - began - started
        process.send_signal(signal.SIGTERM)
        code = process.wait(60)
    right = {}
    for kind, job in jobs.items():
        _, status, _, message = said["bad"][kind]
        damaged = status == "FAILED" and "is not the Poseidon hash" in message
        _, status, proof, message = said["done"][kind]
        if status == "COMPLETED":
            verify(keys, kind, job, bytes.fromhex(proof))
        key = said["keys"].get(IDS[kind]) == [True, True, False, True]
        right[kind] = damaged and status == "COMPLETED" and key
        emit("kinds", right=right[kind], step=kind, status=status, message=message)
    ended = code == 0 and said["cancelled"][1] == "CANCELLED" and said["unknown"] == "NOT_FOUND"
    keep(
        folder,
        what="cuzk's client: proofs at 2 KiB, each damaged first; cancel, evict, preload, status",
        proved=[kind for kind in KINDS if right[kind]],
        start_s=round(started, 3),
        calls_s=round(asked, 3),
    )
    return emit("kinds", right=ended and all(right.values()), step="calls", s=asked, start=started)


def latency(folder: Path) -> bool:
    place, keys = fresh(folder, "latency"), folder / "keys"
    many, urgent = (unpack(GOLDEN / JOBS[kind], place, kind) for kind in (MANY, "winning"))
    right = True
    with service(config_of(place, keys, ("winning", MANY)), REAL, place / "log") as (_, where):

        def said(verb: str, *flags: str) -> dict[str, Any]:
            argv = ["-m", "torchzk.client", verb, "-a", where, *FLAGS[MANY], str(many)]
            done = run_python(*argv, *flags, "--json", timeout=400)
            report: dict[str, Any] = json.loads(done.stdout)
            return report | {"exit_code": done.returncode}

        waits = said("latency", "--urgent", str(urgent))
        ok = waits["exit_code"] == 0 and waits["within_one_proof"] and min(waits["behind"]) >= 100
        right &= emit("latency", right=ok, step="latency", **waits)
        if waits["exit_code"] == 0:
            keep(
                folder,
                what=f"start of a winning PoSt behind 100 {MANY}, 2 KiB",
                runs=len(waits["behind"]),
                behind=waits["behind"],
                start_seconds=waits["start_seconds"],
                **{f"one_{MANY}_alone_s": round(waits["alone_seconds"], 3)},
                within_one_proof=waits["within_one_proof"],
            )
        added = said("bench", "--count", "9")
        overhead = added.get("overhead_seconds") or [float("inf")]
        ok = added["exit_code"] == 0 and statistics.median(overhead) <= 0.020
        # what a disk takes to flush is a machine's own
        right &= emit("latency", right=ok or not ON_CUDA, step="overhead", **added)
        if added["exit_code"] == 0:
            keep(
                folder,
                what=f"overhead of the service over the prover, {MANY} 2 KiB",
                runs=len(overhead),
                overhead_p50_s=round(statistics.median(overhead), 4),
                prove_p50_s=round(statistics.median(added["prove_seconds"]), 3),
                overhead_seconds=[round(s, 4) for s in overhead],
            )
    return right


def squeeze(folder: Path) -> bool:
    place = fresh(folder, "squeeze")
    jobs = {kind: unpack(GOLDEN / JOBS[kind], place, kind) for kind in (MANY, "winning")}
    return squeezed(place, folder / "keys", jobs, MANY, partial(keep, folder))


PARTS: dict[str, tuple[Callable[[Path], bool], float]] = {
    "kinds": (kinds, 110),
    "latency": (latency, 60),
    "squeeze": (squeeze, 60),
}
"""What runs, and its limit in seconds on a GPU."""


def write_rows(folder: Path, out: Path, part: str, facts: dict[str, Any]) -> None:
    """Append what a part kept, each with what is so for all of them."""
    kept = folder / ROWS
    if not kept.is_file():
        return
    out.parent.mkdir(parents=True, exist_ok=True)
    with out.open("a") as rows:
        for line in kept.read_text().splitlines():
            said = json.loads(line)
            row = {"what": said.pop("what"), "command": f"tests/serving/service_on_gpu.py {part}"}
            load = round(os.getloadavg()[0], 1)
            rows.write(json.dumps(row | said | facts | {"load_average_1m": load}) + "\n")
    kept.unlink()


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--commit", help="what rows say of the code, if not git")
    parser.add_argument("--limit", type=float, default=150, help="seconds for all of it")
    parser.add_argument("--one", choices=PARTS, help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    folder = args.folder.absolute()
    if args.one:
        return int(not PARTS[args.one][0](folder))
    unknown = set(args.parts) - set(PARTS)
    if unknown:
        parser.error(f"no part is called {', '.join(sorted(unknown))}")
    (folder / "keys").mkdir(parents=True, exist_ok=True)
    (folder / ROWS).unlink(missing_ok=True)
    facts = conditions.standing(torch.device(DEVICE), args.commit)
    right, end = True, time.monotonic() + args.limit
    for part in args.parts or PARTS:
        start = time.monotonic()
        left = max(end - start, 1.0)
        command = [sys.executable, __file__, "--one", part, "--folder", str(folder)]
        # what a part starts ends with it
        child = subprocess.Popen(command, start_new_session=True, env=child_environment())
        try:
            code: int | str = child.wait(min(PARTS[part][1], left) if ON_CUDA else left)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
            code = "timed out"
        if args.out is not None:
            write_rows(folder, args.out, part, facts)
        right &= emit(part, right=code == 0, step="all", exit_code=code, s=time.monotonic() - start)
    return int(not right)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
