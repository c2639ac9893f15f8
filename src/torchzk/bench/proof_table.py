"""The tables of proofs: what was measured and what it is held against; and stage by stage."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from torchzk.summary import size, wide

Row = dict[str, Any]
_LOG = 132
"""Columns of a table in a log."""
_MET = {True: "green", False: "yellow", None: ""}
"""The colour of a figure by whether it is as good as it must be."""


def print_proofs(
    console: Console, rows: Sequence[Row], earlier: Callable[[Row], Text] | None = None
) -> None:
    """A line a step, and for each proof the stages of a partition, a column a limit.

    Args:
        console: Where to.
        rows: What was measured.
        earlier: What a row is beside the one before it; None for no such column.
    """
    console = wide(console, _LOG)
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
    table.add_column("proof", no_wrap=True)
    for name in ("time", "must", "goal", "peak VRAM", "planned", "ratio"):
        table.add_column(name, justify="right", no_wrap=True)
    if earlier is not None:
        table.add_column("earlier", no_wrap=True)
    table.add_column("key", no_wrap=True)
    table.add_column("result", no_wrap=True)
    for name, own in by_name(rows).items():
        table.add_row(Text(name, "bold"))
        for row in own:
            figures, (key, result) = _figures(row), _ending(row)
            held = [] if earlier is None else [earlier(row)]
            table.add_row(f"  {step_name(row)}", *figures, *held, key, result)
            if row.get("host_rss"):
                table.add_row("  host RSS until then", *_rss(row["host_rss"]))
    console.print(table)
    for name, own in by_name(rows).items():
        if any(is_partition(row) for row in own):
            console.print(_stages(name, own))


def by_name(rows: Iterable[Row]) -> dict[str, list[Row]]:
    """Rows of each proof, in order."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row["name"], []).append(row)
    return found


def is_partition(row: Row) -> bool:
    """Whether a row has the stages of one partition."""
    return "limit_bytes" in row and "stages_ms" in row


def step_name(row: Row) -> str:
    """What a step is called: with its limit, or its partitions."""
    if row["step"] == "whole" and "partitions" in row:
        n = row["partitions"]
        return f"whole, {n} partition{'s' if n > 1 else ''}"
    return str(row["step"])


def column_name(row: Row) -> str:
    """A limit as the head of a column."""
    limit = row["limit_bytes"]
    return "no limit" if limit is None else f"{limit / 1e9:g} GB"


def shown_seconds(row: Row) -> float:
    """Of one partition its own time; of all else what the step is held against, or took."""
    seconds = row.get("p50_s") if is_partition(row) else row.get("figure")
    return float(row["seconds"] if seconds is None else seconds)


def _figures(row: Row) -> list[Text | str]:
    slower = row.get("slower")
    shown = _seconds(shown_seconds(row))
    suffix = "x" if slower is not None else " s"
    plan = row.get("plan") or {}
    ratio_style = _MET[plan.get("reaches_must")]
    if plan.get("figure") is not None and plan["figure"] < 1:
        ratio_style = "bold red"
    return [
        Text(shown, _MET[row.get("reaches_must")]),
        _wish(row.get("must"), suffix),
        _wish(row.get("goal"), suffix),
        _size(row.get("peak_bytes")),
        _size(row.get("planned_bytes") if row.get("peak_bytes") else None),
        Text("" if plan.get("figure") is None else f"{plan['figure']:.3f}x", ratio_style),
    ]


def _ending(row: Row) -> tuple[str, Text]:
    """Where the key was, and whether the result is right."""
    return str(row.get("key_on", "")) + (", in turn" if row.get("in_turn") else ""), _result(row)


def _rss(held: Row) -> list[Text | str]:
    wishes = (size(held[wish]) for wish in ("must", "goal"))
    return [Text(size(int(held["figure"])), _MET[held["reaches_must"]]), *wishes]


def _result(row: Row) -> Text:
    if "error" in row:
        return Text(row["error"].partition(":")[0], "bold red")
    if not row["right"]:
        return Text("WRONG", "bold red")
    if row.get("slower") is not None:
        return Text(f"same bytes, {row['slower']:.2f}x", "green")
    if "rss_slope" in row:
        device = row.get("device_slope")
        more = "" if device is None else f", VRAM {device:+.2%}"
        return Text(f"RSS {row['rss_slope']:+.2%}{more}", "green")
    return Text("verified" if "proof_sha256" in row else "right", "green")


def _stages(name: str, rows: Sequence[Row]) -> Table:
    partitions = [row for row in rows if is_partition(row)]
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
    clock = partitions[0]["clock"]
    table.add_column(f"{name}, ms of the {clock}", no_wrap=True)
    floors: dict[str, float] = next(
        (row["floors_ms"] for row in partitions if row.get("floors_ms")), {}
    )
    for head in (["floor"] if floors else []) + [column_name(row) for row in partitions]:
        table.add_column(head, justify="right", no_wrap=True)
    for stage in dict.fromkeys(stage for row in partitions for stage in row["stages_ms"]):
        first = [_ms(floors.get(stage))] if floors else []
        table.add_row(stage, *first, *(_ms(row["stages_ms"].get(stage)) for row in partitions))
    table.add_row(
        "idle between", *[""] * bool(floors), *(_ms(row["idle_ms"]) for row in partitions)
    )
    table.add_section()
    total = [_ms(sum(floors.values()))] if floors else []
    table.add_row("first to last", *total, *(_ms(1e3 * row["p50_s"]) for row in partitions))
    return table


def _wish(value: float | None, suffix: str) -> str:
    return "" if value is None else f"{value:g}{suffix}"


def _seconds(value: float) -> str:
    return f"{value:.3f} s" if value < 10 else f"{value:,.1f} s"


def _ms(value: float | None) -> str:
    return "" if value is None else f"{value:,.1f}"


def _size(n_bytes: float | None) -> str:
    return "" if n_bytes is None else size(int(n_bytes))
