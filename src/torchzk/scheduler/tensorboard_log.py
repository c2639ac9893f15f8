"""A run as TensorBoard events: scalars a stage, memory over time, a table, the Gantt picture."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from torch.utils.tensorboard.writer import SummaryWriter

from torchzk.scheduler.stages import RunRecord, Stage, stages_of


def write_events(record: RunRecord, folder: Path, picture: NDArray[np.uint8]) -> None:
    """Write one event file to `folder`, complete and closed when this returns.

    Args:
        record: The run.
        folder: An existing folder; `tensorboard --logdir` on it or its parent shows the run.
        picture: uint8 `[height, width, 3]`, the Gantt chart.
    """
    stages = stages_of(record.spans)
    with SummaryWriter(log_dir=str(folder)) as writer:
        for stage in stages:
            writer.add_scalar(f"seconds/{_tag(stage)}", stage.seconds, 0)
        writer.add_scalar("run/seconds", record.seconds, 0)
        writer.add_scalar("run/peak_rss_mib", record.peak_rss / 2**20, 0)
        for sample in record.samples:
            # steps are milliseconds of the run
            step = round(record.seconds_at(sample.time_ns) * 1000)
            wall = time.time() - (time.perf_counter_ns() - sample.time_ns) / 1e9
            writer.add_scalar("memory/rss_mib", sample.rss / 2**20, step, walltime=wall)
        writer.add_text("run", markdown(record, stages), 0)
        writer.add_image("timeline", picture, 0, dataformats="HWC")


def markdown(record: RunRecord, stages: list[Stage]) -> str:
    """The run as two tables, facts and stages."""
    facts = [f"| {_cell(name)} | {_cell(value)} |" for name, value in record.facts.items()]
    rows = [
        f"| {_cell(stage.lane)} | {_cell(' / '.join(stage.path))} | {stage.seconds:.3f} | "
        f"{stage.seconds / (record.seconds or 1):.1%} |"
        for stage in stages
    ]
    head = ["| run | |", "| --- | --- |", f"| title | {_cell(record.title)} |", *facts, ""]
    return "\n".join([*head, "| lane | stage | seconds | share |", "| - | - | -: | -: |", *rows])


def _tag(stage: Stage) -> str:
    return "/".join((stage.lane, *stage.path)).replace(" ", "_").replace(":", "")


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
