"""Benchmarks of proofs one after the other on one device, their rows kept as they come."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch

from torchzk.backends import BackendName, load_backend
from torchzk.bench import conditions
from torchzk.bench.proof_cases import ProofBenchmark
from torchzk.bench.proof_inputs import Inputs
from torchzk.bench.proofs import ProofSteps, Setting, free
from torchzk.bench.rows import append
from torchzk.groth16.products import forget_matrices
from torchzk.groth16.query_variables import query_variables
from torchzk.scheduler.device_clock import clock_of
from torchzk.scheduler.sinks import open_run, timeline
from torchzk.timeline import Timeline

_RUNS = {"cuda": 5, "cpu": 1}


def run_proofs(
    benchmarks: Iterable[ProofBenchmark],
    backend: BackendName,
    device: torch.device,
    watcher: Timeline,
    *,
    inputs: Path,
    runs: int | None,
    limits: tuple[int, ...] | None,
    facts: dict[str, Any],
    out: Path,
    warn: Callable[[str], None],
) -> tuple[list[dict[str, Any]], list[str]]:
    """Run benchmarks of proofs; the timeline of each is kept in `runs/`, as a proof's is.

    Args:
        benchmarks: In this order.
        backend: Whose operations.
        device: Where.
        watcher: Sees every span.
        inputs: Folder of jobs; those that are not there are made.
        runs: How often one partition is proven for its times; 5 if None, on a CPU once.
        limits: Bytes of the device to prove in again, instead of those of the benchmarks.
        facts: What goes into every row, besides the clocks.
        out: The file that rows are appended to.
        warn: Told of steps that failed.

    Returns:
        The rows, and the names of proofs with a step that was not right.
    """
    jobs = Inputs(inputs, load_backend(backend), device)
    rows: list[dict[str, Any]] = []
    wrong: list[str] = []

    def emit(row: dict[str, Any]) -> None:
        rows.append(row | conditions.clocks(device) | {"backend": backend} | facts)
        append(out, rows[-1])

    for benchmark in benchmarks:
        told = {"device": str(facts["device"]), "backend": backend}
        with open_run(Path("runs"), f"bench {benchmark.name}", warn, told) as run:
            run.clock = clock_of(device)
            setting = Setting(
                device=device,
                backend=backend,
                inputs=jobs,
                run=run,
                timeline=timeline(run, watcher),
                runs=runs or _RUNS[device.type],
                limits=limits,
                emit=emit,
                warn=warn,
            )
            if not ProofSteps(benchmark, setting).run():
                wrong.append(benchmark.name)
        # of the next circuit nothing of this one is wanted
        forget_matrices(device)
        query_variables.forget(device)
        free(device)
    return rows, wrong
