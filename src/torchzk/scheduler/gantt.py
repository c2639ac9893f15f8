"""A run as a picture: a row a stage, bars in time, seconds and share at the right."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.textpath import TextPath
from numpy.typing import NDArray

from torchzk.scheduler.lanes import in_order, lane_of
from torchzk.scheduler.stages import RunRecord, Stage, stages_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_HUES = ("#4C78A8", "#F58518", "#54A24B", "#B279A2", "#72B7B2") + (
    "#D8A72C",
    "#9D755D",
    "#E377A0",
    "#7F8FA6",
    "#2F6F6B",
)
INK, FAINT, _BAND, FAILED = "#24292F", "#6E7781", "#F6F8FA", "#CF222E"
_ROW_INCHES = 0.27
WIDTH_INCHES = 11.0
LINE_INCHES = 0.2
"""Of a line of facts below the title."""
_MARGIN = 0.02
"""Of the width, left and right of what is written at the top."""
_MOST_ROWS = 80


def draw(record: RunRecord, *, backstage: bool = True) -> FigureCanvasAgg:
    """The Gantt chart of a run; stages of one family (`msm a`, `msm l`) share a colour.

    Args:
        record: The run.
        backstage: Whether workers, locks and stations have rows; `lane_picture` shows them.
    """
    stages = stages_of(s for s in record.all_spans if backstage or not lane_of(s.lane).of_service)
    rows = _rows(stages, record.device_lanes)
    height = _ROW_INCHES * max(len(rows), 1)
    facts = fact_lines([f"total {record.seconds:.2f} s", *_facts(record)])
    total = height + 1.23 + LINE_INCHES * len(facts)
    figure = Figure(figsize=(WIDTH_INCHES, total), dpi=110, facecolor="white")
    canvas = FigureCanvasAgg(figure)
    axes = figure.add_axes((0.22, 0.55 / total, 0.64, height / total))
    colours = palette(stage.name for stage in stages)
    for y, row in enumerate(rows):
        if isinstance(row, str):
            lane_name(axes, y, row)
            axes.axhspan(y - 0.5, y + 0.5, color=_BAND, lw=0, zorder=0)
        elif isinstance(row, list):
            _lane_row(axes, y, row, record, colours)
        else:
            _stage_row(axes, y, row, record, colours)
    frame(axes, len(rows), record.seconds)
    heading(figure, record.title, facts)
    canvas.draw()  # type: ignore[no-untyped-call]
    return canvas


def fact_lines(facts: Iterable[str]) -> list[str]:
    """Facts side by side, in as many lines as they take; one that is too long has its own."""
    lines: list[str] = []
    for fact in facts:
        longer = f"{lines[-1]}   {fact}" if lines else fact
        if lines and _inches(longer) <= WIDTH_INCHES * (1 - 2 * _MARGIN):
            lines[-1] = longer
        else:
            lines.append(fact)
    return lines


def _inches(text: str) -> float:
    """How wide a line of facts is."""
    return float(TextPath((0, 0), text, size=9).get_extents().width) / 72


def heading(figure: Figure, title: str, lines: Iterable[str]) -> None:
    """Write the title and the lines of facts below it, which take `LINE_INCHES` each."""
    height = figure.get_figheight()
    head = 1 - 0.32 / height
    figure.text(_MARGIN, head, title, size=14, weight="bold", color=INK, va="center")
    for i, line in enumerate(lines):
        at = head - (0.27 + LINE_INCHES * i) / height
        figure.text(_MARGIN, at, line, size=9, color=FAINT, va="center")


def pixels(canvas: FigureCanvasAgg) -> NDArray[np.uint8]:
    """The picture as uint8 `[height, width, 3]`."""
    rgba = np.asarray(canvas.buffer_rgba(), np.uint8)  # type: ignore[no-untyped-call]
    return rgba[..., :3].copy()


def _rows(stages: list[Stage], device_lanes: tuple[str, ...]) -> list[Stage | str | list[Stage]]:
    """Stages in order, under the name of their lane where there are several; devices on top.

    When that grows too long, all lanes of the host but the first two become one row each.
    """
    by_name: dict[str, list[Stage]] = {}
    for stage in stages:
        by_name.setdefault(stage.lane, []).append(stage)
    lanes = {name: by_name[name] for name in in_order(by_name)}
    if len(lanes) <= 1:
        return list(stages)
    crowded = len(stages) + len(lanes) > _MOST_ROWS
    rows: list[Stage | str | list[Stage]] = []
    seen = 0
    for lane, own in lanes.items():
        seen += lane not in device_lanes
        if crowded and seen > 2 and lane not in device_lanes:
            rows.append(own)
        else:
            rows += [lane, *own]
    return rows


def family(name: str) -> str:
    """What stages of one colour have in common."""
    return name.replace(":", " ").split(maxsplit=1)[0]


def palette(names: Iterable[str]) -> dict[str, str]:
    """A colour for every family of stages, in order of first appearance."""
    families = dict.fromkeys(map(family, names))
    return {family: _HUES[i % len(_HUES)] for i, family in enumerate(families)}


def lane_name(axes: Axes, y: float, lane: str, colour: str = INK, *, bold: bool = True) -> None:
    """Write a lane's name to the left of its row."""
    axes.annotate(
        lane,
        xy=(0, y),
        xycoords=("axes fraction", "data"),
        xytext=(-158, 0),
        textcoords="offset points",
        va="center",
        size=9,
        weight="bold" if bold else "normal",
        color=colour,
    )


def _stage_row(
    axes: Axes, y: int, stage: Stage, record: RunRecord, colours: dict[str, str]
) -> None:
    _bars(axes, y, stage, record, colours)
    share = stage.seconds / record.seconds if record.seconds else 0.0
    times = f"  x{len(stage.spans)}" if len(stage.spans) > 1 else ""
    note = "failed" if stage.failed else f"{share:.1%}"
    seconds = stage.seconds
    on_device = stage.lane in record.device_lanes
    shown = f"{1e3 * seconds:,.1f} ms" if on_device else f"{seconds:.2f} s"
    _right(axes, y, 58, shown, INK)
    _right(axes, y, 106, note, FAILED if stage.failed else FAINT)
    axes.annotate(
        "   " * stage.depth + stage.name + times,
        xy=(0, y),
        xycoords=("axes fraction", "data"),
        xytext=(-150, 0),
        textcoords="offset points",
        va="center",
        size=9,
        color=INK if not stage.depth else FAINT,
    )


def _lane_row(
    axes: Axes, y: int, stages: list[Stage], record: RunRecord, colours: dict[str, str]
) -> None:
    for stage in stages:
        if not stage.depth:
            _bars(axes, y, stage, record, colours)
    seconds = sum(stage.seconds for stage in stages if not stage.depth)
    lane_name(axes, y, stages[0].lane)
    _right(axes, y, 58, f"{seconds:.2f} s", INK)


def _bars(axes: Axes, y: int, stage: Stage, record: RunRecord, colours: dict[str, str]) -> None:
    colour = mix(colours[family(stage.name)], 0.35 if stage.depth else 0.0)
    # a stage too short to see still leaves a mark
    least = record.seconds / 600
    for span in stage.spans:
        axes.barh(
            y,
            max(span.seconds, least),
            left=record.seconds_at(span.start_ns),
            height=0.68,
            color=colour,
            edgecolor=FAILED if span.failed else "none",
            hatch="////" if span.failed else None,
            linewidth=1.2 if span.failed else 0,
            zorder=3,
        )


def note_right(axes: Axes, y: float, text: str, colour: str, *, bold: bool = False) -> None:
    """Write a figure to the right of a row."""
    _right(axes, y, 48, text, colour, bold=bold)


def _right(
    axes: Axes, y: float, points: int, text: str, colour: str, *, bold: bool = False
) -> None:
    axes.annotate(
        text,
        xy=(1, y),
        xycoords=("axes fraction", "data"),
        xytext=(points, 0),
        textcoords="offset points",
        ha="right",
        va="center",
        size=9,
        weight="bold" if bold else "normal",
        color=colour,
    )


def mix(colour: str, white: float) -> tuple[float, float, float]:
    """A colour made paler, from 0, itself, to 1, white."""
    r, g, b = to_rgb(colour)
    return (r + (1 - r) * white, g + (1 - g) * white, b + (1 - b) * white)


def frame(axes: Axes, n_rows: int, end: float, start: float = 0.0) -> None:
    """The axis of time, from `start` to `end` in seconds, and as many rows."""
    axes.set_xlim(start, end + 0.01 * (end - start) or 1)
    axes.set_ylim(max(n_rows, 1) - 0.5, -0.5)
    axes.set_yticks([])
    axes.set_xlabel("seconds since start", size=9, color=FAINT)
    axes.tick_params(axis="x", colors=FAINT, labelsize=8, length=0)
    axes.grid(axis="x", color="#D0D7DE", linewidth=0.7, zorder=1)
    axes.set_axisbelow(True)
    for side in ("top", "left", "right"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color("#D0D7DE")


def _facts(record: RunRecord) -> list[str]:
    peak = [f"peak memory {record.peak_rss / 2**20:,.0f} MiB"] if record.peak_rss else []
    if record.device:
        most = max(d.most.allocated for d in record.device)
        peak.append(f"of the device {most / 2**30:,.1f} GiB")
    return [f"{name} {value}" for name, value in record.facts.items()] + peak
