"""Times reading and verifying a synthetic sector's C1 output and update job.

    PYTHONPATH=src:tests python tests/circuits/bench_c1.py [SECTOR [BACKEND]]

SECTOR is one of 2KiB, 8MiB, 512MiB, 32GiB, 64GiB. Works on the first CUDA device if there is one.
Every time is of a first and of a second run in one process, in seconds.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Literal, TypeVar

import torch

from torchzk.backends import Backend, choose_backend, load_backend
from torchzk.circuits.c1_file import read_c1
from torchzk.circuits.c1_json import c1_from_json
from torchzk.circuits.job_head import JobKind
from torchzk.circuits.json_input import parse_json
from torchzk.circuits.porep_shapes import porep_shape
from torchzk.circuits.porep_slots import porep_witness
from torchzk.circuits.porep_vanilla import check_porep
from torchzk.circuits.registered import default_seal
from torchzk.circuits.sectors import SECTOR_SHAPES
from torchzk.circuits.synthetic import SectorName, make_sector
from torchzk.circuits.synthetic_jobs import job_text
from torchzk.circuits.update_job import load_update_job
from torchzk.circuits.update_shapes import update_shape
from torchzk.circuits.update_vanilla import check_update
from torchzk.timeline import Timeline

Result = TypeVar("Result")


def timed(what: str, work: Callable[[], Result]) -> Result:
    times = []
    for _ in range(2):
        start = time.perf_counter()
        result = work()
        if torch.cuda.is_available():
            # the host's clock times the device's work
            torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    print(f"{what}: {times[0]:.3f} {times[1]:.3f}", flush=True)
    return result


def main(name: str, backend: Backend, device: torch.device) -> None:
    size = next(s.sector_size for s in SECTOR_SHAPES.values() if s.name == name)
    registered = default_seal(size)
    assert registered is not None
    of = SectorName("bench", registered, 7, 1000)
    sector = make_sector(of, backend, device, Timeline())
    with tempfile.TemporaryDirectory() as folder:
        paths: dict[JobKind, Path] = {}
        kinds: tuple[JobKind, ...] = ("porep", "update")
        for kind in kinds:
            paths[kind] = Path(folder) / f"{kind}.json"
            paths[kind].write_text("".join(job_text(sector, kind)))
            print(f"{kind}: {paths[kind].stat().st_size} bytes")
        shape = porep_shape(size)
        c1 = timed("read C1", lambda: read_c1(paths["porep"], shape))
        data = paths["porep"].read_bytes()
        timed("read C1, any JSON", lambda: c1_from_json(parse_json(data, "C1"), shape))
        timed(
            "verify C1",
            lambda: check_porep(backend, device, c1, miner_id=1000, sector_number=7),
        )
        timed("witness of a partition", lambda: porep_witness(backend, device, c1, 0))
        job = timed("read update", lambda: load_update_job(paths["update"], update_shape(size)))
        timed("verify update", lambda: check_update(backend, device, job))


if __name__ == "__main__":
    arguments = dict(enumerate(sys.argv[1:]))
    chosen = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    wanted: Literal["torch", "auto"] = "torch" if arguments.get(1) == "torch" else "auto"
    main(arguments.get(0, "32GiB"), load_backend(choose_backend(wanted, chosen).name), chosen)
