"""The tables that end a command on a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from torchzk.scheduler.device_tables import counts, tables
from torchzk.scheduler.device_use import device_uses
from torchzk.scheduler.lanes import lane_of
from torchzk.scheduler.stages import RunRecord, StageUse, idle_seconds, stages_of, uses_of
from torchzk.timeline import Span

_BAR, _SHORT_BAR = 24, 8
"""Columns of a bar, at most."""
_LEAST_BAR = 8
_BETWEEN = 3
"""Columns between two of a table."""


def stage_seconds(spans: Iterable[Span]) -> dict[str, float]:
    """Seconds a stage in order of time, all partitions together, nested stages as `a / b`."""
    seconds: dict[str, float] = {}
    work = [span for span in spans if not lane_of(span.lane).of_service]
    for stage in sorted(stages_of(work), key=lambda s: (s.spans[0].start_ns, s.depth)):
        name = " / ".join(stage.path)
        seconds[name] = seconds.get(name, 0.0) + stage.seconds
    return seconds


def device_stages(record: RunRecord) -> dict[str, dict[str, float | int | None]]:
    """What the stages took of the device, for JSON; empty without a GPU."""
    return {
        use.name: {
            "device_ms": 1e3 * use.device_seconds,
            "peak_bytes": use.most.allocated if use.most else None,
            "reserved_bytes": use.most.reserved if use.most else None,
            "planned_bytes": use.planned,
        }
        for use in uses_of(record)
        if use.device_seconds is not None
    }


def device_report(record: RunRecord) -> dict[str, dict[str, float | int | str | None]]:
    """How busy each device was, for JSON; on a CPU by the host's clock."""
    return {
        use.device: {
            "workers": use.workers,
            "clock": use.clock,
            "window_seconds": use.seconds,
            "busy_by_stages": use.busy,
            "busy_by_kernels": use.profiled_busy,
            "busy_by_stages_while_profiled": use.busy_while_profiled,
            "copies_alone": use.copies_alone,
            **counts(record, use.device),
        }
        for use in device_uses(record)
    }


def bar(console: Console, width: int, share: float, style: str) -> Text:
    """A bar of `share` of `width` columns, in a sign that the stream has."""
    return Text(("=" if console.options.ascii_only else "━") * round(share * width), style)


def bar_width(console: Console, cells: Iterable[Sequence[str]], most: int) -> int:
    """Columns that are left for bars beside a table of these rows; 0 where they are too few."""
    widths = [max(map(cell_len, column)) for column in zip(*cells, strict=True)]
    left = console.width - sum(widths) - _BETWEEN * (len(widths) + 1)
    return min(most, left) if left >= _LEAST_BAR else 0


def print_stages(console: Console, record: RunRecord) -> None:
    """Stages with seconds, share and a bar of it; with a GPU its time and memory as well."""
    uses = uses_of(record)
    total = sum(use.host_seconds for use in uses if not use.depth)
    gpu, plan = bool(record.device), bool(record.planned)
    # with a GPU there are more columns, and a terminal may have no more than 80
    most, padding = (_SHORT_BAR, (0, 1, 0, 0)) if gpu else (_BAR, (0, 1, 0, 1))
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=not gpu, padding=padding)
    table.add_column("stage", overflow="fold")
    names = _columns(gpu, plan)
    for name in names:
        table.add_column(name, justify="right", no_wrap=True)
    shares = [use.host_seconds / total if total else 0.0 for use in uses]
    rows = [
        ["  " * use.depth + use.path[-1], *_cells(use, share, gpu, plan)]
        for use, share in zip(uses, shares, strict=True)
    ]
    width = bar_width(console, [["stage", *names], *rows], most)
    if width:
        table.add_column("", width=width)
    for use, share, row in zip(uses, shares, rows, strict=True):
        style = "dim" if use.depth else ""
        drawn = bar(console, width, share, "cyan dim" if use.depth else "cyan")
        table.add_row(*(Text(cell, style) for cell in row), *([drawn] if width else []))
    table.add_section()
    last = {"host s": f"{total:.2f}", "seconds": f"{total:.2f}"}
    if gpu:
        last["peak VRAM"] = size(max(d.most.allocated for d in record.device))
    table.add_row(Text("all stages", "bold"), *(Text(last.get(n, ""), "bold") for n in names))
    if gpu:
        idle = {"device ms": f"{1e3 * idle_seconds(record.device):,.1f}"}
        table.add_row(Text("device idle between", "dim"), *(idle.get(n, "") for n in names))
    console.print(table)


def print_devices(console: Console, record: RunRecord) -> None:
    """How busy devices were, and their locks; nothing where `tables` has none."""
    for own in tables(record):
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1, 0, 0))
        for i, name in enumerate(own.head):
            table.add_column(name, justify="right" if i else "left", no_wrap=True)
        for row in own.rows:
            table.add_row(*row)
        console.print(table)
        console.print()


def _columns(gpu: bool, plan: bool) -> list[str]:
    if not gpu:
        return ["seconds", "share"]
    return ["device ms", "host s", "share", "peak VRAM", *(["planned"] if plan else [])]


def _cells(use: StageUse, share: float, gpu: bool, plan: bool) -> list[str]:
    seconds = [f"{use.host_seconds:.2f}", f"{share:.1%}"]
    if not gpu:
        return seconds
    ms = "" if use.device_seconds is None else f"{1e3 * use.device_seconds:,.1f}"
    peak = size(use.most.allocated) if use.most else ""
    planned = "" if use.planned is None else size(use.planned)
    return [ms, *seconds, peak, *([planned] if plan else [])]


def print_facts(console: Console, rows: Iterable[tuple[str, str, str]]) -> None:
    """Name, value and style of each fact."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim")
    table.add_column(overflow="fold")
    for name, value, style in rows:
        table.add_row(name, Text(value, style))
    console.print(table)


def wide(console: Console, columns: int) -> Console:
    """The console; of a log, which is no terminal, at least so wide: it keeps every column."""
    if console.is_terminal:
        return console
    return Console(file=console.file, width=max(console.width, columns))


def print_titled(
    console: Console, title: str, head: Sequence[str], rows: Iterable[Sequence[str]], whole: int = 0
) -> None:
    """A table under a title; without a head where all its names are empty. What is bad is red.

    Args:
        whole: How many columns are wide enough for all that is in them; others may be folded.
    """
    console.print(Text(title, "bold"))
    table = Table(box=box.SIMPLE, show_header=any(head), pad_edge=False)
    for i, name in enumerate(head):
        table.add_column(name, overflow="fold", no_wrap=i < whole)
    for row in rows:
        bad = [cell == "WRONG" or cell.endswith("absent") for cell in row]
        table.add_row(*(Text(c, "bold red" if b else "") for c, b in zip(row, bad, strict=True)))
    console.print(table)


def shortened(text: str, ends: int = 16) -> str:
    """The two ends of a long hexadecimal text."""
    return text if len(text) <= 2 * ends + 3 else f"{text[:ends]}...{text[-ends:]}"


def size(n_bytes: int) -> str:
    """Bytes in the largest binary unit that they fill."""
    for unit, shift in (("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)):
        if n_bytes >= 1 << shift:
            return f"{n_bytes / (1 << shift):,.1f} {unit}"
    return f"{n_bytes} B"


def partitions(n: int) -> str:
    """A count of partitions in words."""
    return f"{n} partition{'s' if n > 1 else ''}"
