"""The table of a sweep, and its picture: busy and pace over workers, a line a policy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from torchzk.bench.sweep_cases import Setting, count
from torchzk.files import atomic_write
from torchzk.scheduler.policies import POLICIES
from torchzk.summary import size, wide

Row = dict[str, Any]
_LOG = 170
_HEADS = (
    ("workers", "in flight", "sectors", "s a proof", "steady", "simulated", "ratio", "by first")
    + ("busy", "by kernels", "simulated")
    + ("mem lock waits", "compute lock waits", "waits for key", "peak VRAM", "trims", "result")
)
_NEAR = 0.1
"""A predicted pace further than this from the measured one is shown in red."""
_BESIDE = 0.14
"""Of a worker, from one policy's dots to the next one's."""
_COLOURS = ("#B279A2", "#F58518", "#72B7B2", "#4C78A8")
_INK, _FAINT = "#24292F", "#6E7781"
_GB = 10**9
_PLACE_INCHES, _PLOT_INCHES = 4.9, 2.1
"""Of the picture: for a place, its name and two rows of plots; for a plot, across."""


def print_sweep(
    console: Console,
    rows: Sequence[Row],
    repeats: Mapping[str, Mapping[Setting, Setting]] = MappingProxyType({}),
) -> None:
    """A line a setting, under its circuit and its place.

    Args:
        rows: Of what was run.
        repeats: By circuit, what was not, with the setting of fewer workers that it is the same
            as; told in the table's foot.
    """
    console = wide(console, _LOG)
    for place in dict.fromkeys(map(place_of, rows)):
        table = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
        table.title, table.title_justify = Text(place, "bold"), "left"
        table.add_column("policy", no_wrap=True)
        for head in _HEADS:
            table.add_column(head, justify="right", no_wrap=" " not in head)
        own = [row for row in rows if place_of(row) == place]
        for row in own:
            table.add_row(row["policy"], *_cells(row))
        foot = _foot(own[0], repeats.get(own[0]["circuit"], {}))
        table.caption, table.caption_justify = Text(foot) if foot else None, "left"
        console.print(table)
        console.print()


def place_of(row: Row) -> str:
    """Circuit, size and memory of a row, in words."""
    limit = "all memory" if row["limit"] is None else f"{row['limit'] / _GB:g} GB"
    place = f"{row['circuit']}, 2^{row['log_n']}, key on the {row['residency']}, {limit}"
    most, devices = row.get("most_partitions"), row.get("devices", 1)
    place += "" if most is None else f", {count(most, 'partition')} a sector"
    place += ", no witness graph" if row.get("witness_graph") is False else ""
    return place if devices == 1 else f"{place}, {devices} devices"


def _foot(row: Row, repeats: Mapping[Setting, Setting]) -> str:
    """Which settings of the row's place were not run, by how many sectors are in flight."""
    own = {s: first for s, first in repeats.items() if s.place == (row["residency"], row["limit"])}
    said = []
    for flight, fewer in dict.fromkeys((s.in_flight, first.workers) for s, first in own.items()):
        of = {s.workers for s, f in own.items() if (s.in_flight, f.workers) == (flight, fewer)}
        said.append(f"{_listed(sorted(of))} as {fewer} with {flight} in flight")
    if not said:
        return ""
    return "Not run, for no more partitions are in work at once, workers: " + "; ".join(said)


def _listed(numbers: Sequence[int]) -> str:
    *most, last = map(str, numbers)
    return f"{', '.join(most)} and {last}" if most else last


def _cells(row: Row) -> list[Text | str]:
    head: list[Text | str] = [str(row[key]) for key in ("workers", "in_flight", "sectors")]
    if "error" in row:
        why = Text(row["error"].partition(":")[0], "bold red")
        return [*head, *[""] * (len(_HEADS) - len(head) - 1), why]
    locks = row["locks"]
    return [
        *head,
        Text(_seconds(row["seconds_a_proof"]), "bold"),
        _seconds(row["steady_seconds_a_proof"]),
        _seconds(row["predicted_seconds_a_proof"]),
        _ratio(row["predicted_ratio"]),
        _ratio(row.get("foretold_ratio")),
        _share(row["busy"]),
        _share(row["busy_by_kernels"]),
        _share(row["predicted_busy"]),
        _seconds(_waited(locks, "mem")),
        _seconds(_waited(locks, "compute")),
        _share(row.get("waited_for_key_share")),
        "" if row["peak_bytes"] is None else size(row["peak_bytes"]),
        str(row.get("trims", "")),
        _result(row),
    ]


def _waited(locks: dict[str, dict[str, float]], lock: str) -> float:
    return sum(use["somebody_waited_s"] for name, use in locks.items() if f" {lock} " in name)


def _result(row: Row) -> Text:
    if not row["right"]:
        return Text("WRONG", "bold red")
    # memory ran out on the way
    return Text("replanned", "yellow") if row.get("replanned") else Text("same bytes", "green")


def _ratio(value: float | None) -> Text:
    if value is None:
        return Text()
    return Text(f"{value:.3f}", "red" if abs(value - 1) > _NEAR else "green")


def _seconds(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.3f}" if value < 10 else f"{value:,.1f}"


def _share(value: float | None) -> str:
    return "" if value is None else f"{value:.1%}"


def write_picture(rows: Sequence[Row], path: Path) -> bool:
    """Draw the rows that were measured; a row of plots a place, one for each number in flight.

    Returns:
        Whether there were any.
    """
    rows = [row for row in rows if row.get("seconds_a_proof")]
    if not rows:
        return False
    with atomic_write(path) as file:
        draw(rows).print_png(file)  # type: ignore[no-untyped-call]
    return True


def draw(rows: Sequence[Row]) -> FigureCanvasAgg:
    """The picture; see `write_picture`. Measured values are dots on lines, predicted ones rings."""
    places = list(dict.fromkeys(map(place_of, rows)))
    flights = sorted({row["in_flight"] for row in rows})
    workers = sorted({row["workers"] for row in rows})
    height = _PLACE_INCHES * len(places) + 0.4
    # a place's name wants its room, however few plots there are
    width = max(1.1 + _PLOT_INCHES * len(flights), 6.4)
    figure = Figure(figsize=(width, height), dpi=110, facecolor="white")
    canvas = FigureCanvasAgg(figure)
    for i, place in enumerate(places):
        there = [row for row in rows if place_of(row) == place]
        top = height - _PLACE_INCHES * i
        figure.text(
            0.2 / width,
            1 - (height - top + 0.3) / height,
            place,
            size=10,
            weight="bold",
            color=_INK,
        )
        # side by side of one place, pace above busy: one axis of each kind
        grid = figure.add_gridspec(
            2,
            len(flights),
            left=0.75 / width,
            right=1 - 0.25 / width,
            top=(top - 0.65) / height,
            bottom=(top - _PLACE_INCHES + 0.55) / height,
            hspace=0.14,
            wspace=0.08,
        ).subplots(sharex=True, sharey="row", squeeze=False)
        grid[0][0].set_xlim(workers[0] - 0.4, workers[-1] + 0.4)
        grid[0][0].set_xticks(workers)
        grid[0][0].set_ylim(0, 1.12 * max(_both(there, "seconds_a_proof")))
        grid[1][0].set_ylim(*_percent(_both(there, "busy")))
        grid[0][0].set_ylabel("s a proof", size=9, color=_FAINT)
        grid[1][0].set_ylabel("busy, %", size=9, color=_FAINT)
        for j, flight in enumerate(flights):
            own = [row for row in there if row["in_flight"] == flight]
            _lines(grid[0][j], own, "seconds_a_proof", 1.0)
            _lines(grid[1][j], own, "busy", 100.0)
            grid[0][j].set_title(f"{flight} in flight", size=9, color=_INK)
            grid[1][j].set_xlabel("workers", size=9, color=_FAINT)
    drawn = {
        label: handle
        for axes in figure.axes
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    figure.legend(
        drawn.values(), drawn.keys(), loc="lower center", ncols=5, fontsize=8, frameon=False
    )
    canvas.draw()  # type: ignore[no-untyped-call]
    return canvas


def _both(rows: Iterable[Row], figure: str) -> list[float]:
    """A figure of rows, measured and predicted."""
    values = [row[key] for row in rows for key in (figure, f"predicted_{figure}")]
    return [value for value in values if value is not None] or [1.0]


def _percent(shares: Iterable[float]) -> tuple[float, float]:
    """From a ten below the least, for the last few per cent matter, to where a ring of 100 ends."""
    least = max(0, int(10 * min(shares)) * 10 - 10)
    return least, 100 + 0.05 * (100 - least)


def _lines(axes: Axes, rows: Iterable[Row], figure: str, factor: float) -> None:
    rows = sorted(rows, key=lambda row: row["workers"])
    for i, (policy, colour) in enumerate(zip(POLICIES, _COLOURS, strict=True)):
        own = [row for row in rows if row["policy"] == policy and row[figure] is not None]
        if not own:
            continue
        # beside each other where they are equal
        at = [row["workers"] + _BESIDE * (i - 1.5) for row in own]
        values = [factor * row[figure] for row in own]
        axes.plot(at, values, "o-", color=colour, lw=1.2, ms=4, label=policy)
        said = [factor * row[f"predicted_{figure}"] for row in own]
        axes.plot(at, said, "o", mfc="none", mec=colour, ms=8, mew=0.9)
    axes.tick_params(colors=_FAINT, labelsize=8, length=0)
    axes.grid(color="#D0D7DE", linewidth=0.6)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color("#D0D7DE")
