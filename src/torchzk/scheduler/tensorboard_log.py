"""A run as TensorBoard events: scalars a stage, memory over time, tables, the Gantt picture."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from torch.utils.tensorboard.writer import SummaryWriter

from torchzk.scheduler.stages import RunRecord, Stage, StageUse, idle_seconds, stages_of, uses_of


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
        for use in uses_of(record):
            _add_use(writer, use)
        if record.device:
            writer.add_scalar("device/idle_between_stages_ms", 1e3 * idle_seconds(record.device), 0)
        writer.add_scalar("run/seconds", record.seconds, 0)
        writer.add_scalar("run/peak_rss_mib", record.peak_rss / 2**20, 0)
        for sample in record.samples:
            # steps are milliseconds of the run
            step = round(record.seconds_at(sample.time_ns) * 1000)
            wall = time.time() - (time.perf_counter_ns() - sample.time_ns) / 1e9
            writer.add_scalar("memory/rss_mib", sample.rss / 2**20, step, walltime=wall)
        writer.add_text("run", markdown(record, stages), 0)
        writer.add_image("timeline", picture, 0, dataformats="HWC")


def _add_use(writer: SummaryWriter, use: StageUse) -> None:
    """Time and memory of the device, where its clock heard the stage; the plan where it has it."""
    tag = "/".join(_part(name) for name in use.path)
    if use.device_seconds is not None:
        writer.add_scalar(f"device_ms/{tag}", 1e3 * use.device_seconds, 0)
    if use.most is not None:
        writer.add_scalar(f"device_peak_mib/allocated/{tag}", use.most.allocated / 2**20, 0)
        writer.add_scalar(f"device_peak_mib/reserved/{tag}", use.most.reserved / 2**20, 0)
    if use.planned is not None:
        writer.add_scalar(f"device_peak_mib/planned/{tag}", use.planned / 2**20, 0)


def markdown(record: RunRecord, stages: list[Stage]) -> str:
    """The run as tables: facts, stages by lane, and with a GPU what stages took of it."""
    facts = [f"| {_cell(name)} | {_cell(value)} |" for name, value in record.facts.items()]
    rows = [
        f"| {_cell(stage.lane)} | {_cell(' / '.join(stage.path))} | {stage.seconds:.3f} | "
        f"{stage.seconds / (record.seconds or 1):.1%} |"
        for stage in stages
    ]
    head = ["| run | |", "| --- | --- |", f"| title | {_cell(record.title)} |", *facts, ""]
    lanes = ["| lane | stage | seconds | share |", "| - | - | -: | -: |", *rows]
    return "\n".join([*head, *lanes, *(_device_table(record) if record.device else [])])


def _device_table(record: RunRecord) -> list[str]:
    head = ["", "| stage | device ms | host s | peak MiB | reserved MiB | planned MiB |"]
    rows = [
        f"| {_cell(use.name)} | {_number(use.device_seconds, 1e3, 1)} | {use.host_seconds:.3f} | "
        f"{_mib(use.most.allocated if use.most else None)} | "
        f"{_mib(use.most.reserved if use.most else None)} | "
        f"{_mib(use.planned)} |"
        for use in uses_of(record)
        if use.device_seconds is not None
    ]
    idle = f"| idle between stages | {1e3 * idle_seconds(record.device):.1f} | | | | |"
    return [*head, "| - | -: | -: | -: | -: | -: |", *rows, idle]


def _number(value: float | None, factor: float, digits: int) -> str:
    return "" if value is None else f"{factor * value:,.{digits}f}"


def _mib(n_bytes: int | None) -> str:
    return _number(n_bytes, 2**-20, 0)


def _tag(stage: Stage) -> str:
    return "/".join(_part(name) for name in (stage.lane, *stage.path))


def _part(name: str) -> str:
    return name.replace(" ", "_").replace(":", "")


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
