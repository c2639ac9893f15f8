"""Rows of `trims_on_timeline` as one picture: a trim below the kernels it was beside, a pair each.

PYTHONPATH=src:tests python tests/scheduler/trims_picture.py ROWS.jsonl PICTURE.png
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from torchzk.files import atomic_write
from torchzk.scheduler.gantt import (
    FAILED,
    FAINT,
    INK,
    WIDTH_INCHES,
    frame,
    heading,
    lane_name,
    note_right,
)

TITLE = "A trim beside another worker's kernels"
_SAID = {
    "own": "memory kept for a stream at rest",
    "compute": "memory kept for the stream of the kernels",
}
_KERNELS = "#4C78A8"
_ROWS = 3
"""Of a case: its name, the kernels, the trim."""


def draw(rows: Sequence[Mapping[str, Any]]) -> FigureCanvasAgg:
    """Three rows a case; time is from when the kernels began."""
    height = 0.27 * _ROWS * len(rows)
    total = height + 1.35
    figure = Figure(figsize=(WIDTH_INCHES, total), dpi=110, facecolor="white")
    canvas = FigureCanvasAgg(figure)
    axes = figure.add_axes((0.215, 0.55 / total, 0.69, height / total))
    for i, row in enumerate(rows):
        y = _ROWS * i
        kernels, trim = row["kernels_ms"] / 1e3, row["trim_ms"] / 1e3
        ended = kernels - row["kernels_left_ms"] / 1e3
        waited = "waited for the kernels" if row["waited_for_kernels"] else "did not wait"
        lane_name(axes, y, f"{row['allocator']} allocator")
        axes.text(0, y, f"{_SAID[row['kept_for']]}: {waited}", size=9, color=INK, va="center")
        for at, name, end, seconds, colour in (
            (y + 1, "kernels of one worker", kernels, kernels, _KERNELS),
            (y + 2, "trim of the other", ended, trim, FAILED),
        ):
            lane_name(axes, at, name, FAINT, bold=False)
            axes.barh(at, seconds, left=end - seconds, height=0.72, color=colour, zorder=3)
            note_right(axes, at, f"{1e3 * seconds:.0f} ms", INK)
    frame(axes, _ROWS * len(rows), max(row["kernels_ms"] for row in rows) / 1e3)
    axes.set_xlabel("seconds since the kernels began", size=9, color=FAINT)
    heading(figure, TITLE, [f"{row['device']}, torch {row['torch']}" for row in rows[:1]])
    canvas.draw()  # type: ignore[no-untyped-call]
    return canvas


def write(rows: Path, picture: Path) -> None:
    """Draw the rows of a file that were right."""
    found = [json.loads(line) for line in rows.read_text().splitlines()]
    with atomic_write(picture) as file:
        draw([row for row in found if row["right"]]).print_png(file)  # type: ignore[no-untyped-call]


if __name__ == "__main__":
    write(Path(sys.argv[1]), Path(sys.argv[2]))
