"""The table at the end of a session."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from torchzk.bench.rows import Result
from torchzk.summary import wide

_LOG = 132
"""Columns of the table in a log, where it is held against earlier rows."""


def print_table(
    console: Console,
    results: Sequence[Result],
    *,
    gpu: bool,
    earlier: Sequence[Text] | None = None,
) -> None:
    """A line each: the median, what it is held against, and whether the result is right.

    `ratio` is the time over sppark's, `floor` over the floor, `ref` over that of uniform inputs or
    of the largest limit.

    Args:
        console: Where to.
        results: What was run.
        gpu: False leaves the colours out: figures of one H200 say nothing of a CPU.
        earlier: What each is beside the row before it; None for no such column.
    """
    if earlier is not None:
        console = wide(console, _LOG)
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
    table.add_column("benchmark", no_wrap=True)
    for name in ("p50", "", "must", "goal", "sppark", "ratio", "floor", "ref"):
        table.add_column(name, justify="right" if name else "left", no_wrap=True)
    if earlier is not None:
        table.add_column("earlier", no_wrap=True)
    table.add_column("result", no_wrap=True)
    for k, r in enumerate(results):
        figures = r.figures
        suffix = "x" if figures.relative else ""
        met = {True: "green", False: "yellow", None: ""}[r.reaches(figures.must) if gpu else None]
        table.add_row(
            r.benchmark.name,
            Text(_number(r.figure), met),
            Text(r.benchmark.unit, "dim"),
            _number(figures.must, suffix),
            _number(figures.goal, suffix),
            _number(figures.sppark),
            _number(r.over_sppark, "x"),
            _number(r.over_floor, "x"),
            _number(r.over_against, "x"),
            *([] if earlier is None else [earlier[k]]),
            Text("exact", "green") if r.exact else Text("WRONG", "bold red"),
        )
    console.print(table)


def _number(value: float | None, suffix: str = "") -> str:
    """Three digits or more."""
    if value is None:
        return ""
    digits = 0 if value >= 99.95 else 1 if value >= 20 else 2 if value >= 1 else 3
    return f"{value:,.{digits}f}{suffix}"
