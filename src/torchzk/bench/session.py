"""Benchmarks one after the other on one device: made, called, judged, and written down."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch

from torchzk.backends import BackendName, load_backend
from torchzk.bench import conditions
from torchzk.bench.cases import Benchmark
from torchzk.bench.operations import OPERATIONS, group_of
from torchzk.bench.prepared import Prepared
from torchzk.bench.profiling import slowest
from torchzk.bench.rows import Result, append
from torchzk.bench.timing import measure, synchronize
from torchzk.bench.workshop import Workshop
from torchzk.timeline import Timeline


def run_all(
    benchmarks: Iterable[Benchmark],
    backend: BackendName,
    device: torch.device,
    timeline: Timeline,
    *,
    runs: int | None,
    facts: dict[str, Any],
    out: Callable[[str], Path],
    show: Callable[[str], None] | None = None,
) -> list[tuple[Result, dict[str, Any]]]:
    """Run benchmarks, each after the one it is compared with, and append their rows as they come.

    Args:
        benchmarks: In the order of `cases.select`.
        backend: Whose operations.
        device: Where.
        timeline: Gets a span a benchmark, and spans of its parts.
        runs: See `timing.measure`.
        facts: What goes into every row, besides the clocks.
        out: The file for the rows of a group.
        show: Is told what takes longest in one more call of each, a line each; None for no more.
    """
    shop = Workshop(load_backend(backend), backend, device)
    medians: dict[str, float] = {}
    done: list[tuple[Result, dict[str, Any]]] = []
    for benchmark in benchmarks:
        with timeline.span(benchmark.name):
            result = _run(benchmark, shop, timeline, runs, medians, show)
        medians[benchmark.name] = result.seconds
        row = result.row() | conditions.clocks(device) | {"backend": backend} | facts
        append(out(group_of(benchmark.operation)), row)
        done.append((result, row))
    return done


def _run(
    benchmark: Benchmark,
    shop: Workshop,
    timeline: Timeline,
    runs: int | None,
    medians: dict[str, float],
    show: Callable[[str], None] | None,
) -> Result:
    with timeline.span("make inputs"):
        prepared: Prepared = OPERATIONS[benchmark.operation](benchmark, shop)
        synchronize(shop.device)
    with timeline.span("run and check"):
        timed = measure(prepared.call, prepared.is_right, shop.device, runs, timeline.advance)
    if show is not None:
        for name, seconds, count in slowest(prepared.call, shop.device):
            show(f"{1e3 * seconds:10.3f} ms {count:5d} x {name}")
    against = benchmark.against
    return Result(
        benchmark=benchmark,
        times=timed.times,
        exact=timed.right,
        work=prepared.work,
        work_of=prepared.work_of,
        # of an H200: it says nothing of a CPU
        floor=prepared.floor if shop.device.type == "cuda" else None,
        how=prepared.how,
        against=medians[against.name] if against else None,
    )
