"""A run as TensorBoard events: scalars a stage, memory over time, tables, the pictures."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from torch.utils.tensorboard.writer import SummaryWriter

from torchzk.scheduler import device_tables
from torchzk.scheduler.device_use import device_uses
from torchzk.scheduler.lanes import lane_of
from torchzk.scheduler.lock_use import lock_uses
from torchzk.scheduler.stages import RunRecord, Stage, StageUse, idle_seconds, stages_of, uses_of

_IN_TAGS = str.maketrans({" ": "_", ":": None, "'": None})


def write_events(
    record: RunRecord, folder: Path, pictures: Mapping[str, NDArray[np.uint8]]
) -> None:
    """Write one event file to `folder`, complete and closed when this returns.

    Args:
        record: The run.
        folder: An existing folder; `tensorboard --logdir` on it or its parent shows the run.
        pictures: uint8 `[height, width, 3]` each, by the tag of the image.
    """
    stages = stages_of(span for span in record.spans if not lane_of(span.lane).of_service)
    with SummaryWriter(log_dir=str(folder)) as writer:
        for stage in stages:
            writer.add_scalar(f"seconds/{_tag(stage)}", stage.seconds, 0)
        for use in uses_of(record):
            _add_use(writer, use)
        if record.device:
            writer.add_scalar("device/idle_between_stages_ms", 1e3 * idle_seconds(record.device), 0)
        writer.add_scalar("run/seconds", record.seconds, 0)
        writer.add_scalar("run/peak_rss_mib", record.peak_rss / 2**20, 0)
        _add_devices(writer, record)
        over_time = _OverTime(writer, record)
        for sample in record.samples:
            over_time.add("memory/rss_mib", sample.time_ns, sample.rss / 2**20)
        for vram in record.vram:
            tag = f"vram_mib/{_part(vram.device)}"
            over_time.add(f"{tag}/allocated", vram.time_ns, vram.most.allocated / 2**20)
            over_time.add(f"{tag}/reserved", vram.time_ns, vram.most.reserved / 2**20)
        for level in record.levels:
            tag = f"vram_mib/{_part(level.name).replace('_promised', '/planned')}"
            over_time.add(tag, level.time_ns, level.value / 2**20)
        writer.add_text("run", markdown(record, stages), 0)
        for tag, picture in pictures.items():
            writer.add_image(tag, picture, 0, dataformats="HWC")


class _OverTime:
    """Scalars whose steps are milliseconds of the run."""

    def __init__(self, writer: SummaryWriter, record: RunRecord) -> None:
        self._writer, self._record = writer, record

    def add(self, tag: str, time_ns: int, value: float) -> None:
        step = round(self._record.seconds_at(time_ns) * 1000)
        wall = time.time() - (time.perf_counter_ns() - time_ns) / 1e9
        self._writer.add_scalar(tag, value, step, walltime=wall)


def _add_devices(writer: SummaryWriter, record: RunRecord) -> None:
    """How busy devices were, and how long their locks were held and waited for."""
    for use in device_uses(record):
        tag = f"busy/{_part(use.device)}"
        writer.add_scalar(f"{tag}/stages", use.busy, 0)
        writer.add_scalar(f"{tag}/window_seconds", use.seconds, 0)
        if use.profiled_busy is not None and use.busy_while_profiled is not None:
            writer.add_scalar(f"{tag}/kernels", use.profiled_busy, 0)
            writer.add_scalar(f"{tag}/stages_while_profiled", use.busy_while_profiled, 0)
            writer.add_scalar(f"{tag}/copies_alone", use.copies_alone or 0.0, 0)
        for name, n in device_tables.counts(record, use.device).items():
            writer.add_scalar(f"counts/{_part(use.device)}/{_part(name)}", n, 0)
    for lock in lock_uses(record.spans):
        writer.add_scalar(f"locks/{_part(lock.name)}/held_seconds", lock.held_seconds, 0)
        writer.add_scalar(f"locks/{_part(lock.name)}/waited_seconds", lock.waited_seconds, 0)


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
    devices = [
        line
        for table in device_tables.tables(record)
        for line in ["", *_markdown_table(table.head, table.rows)]
    ]
    own = _device_table(record) if record.device else []
    return "\n".join([*head, *lanes, *devices, *own])


def _markdown_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = [head, ["-", *["-:"] * (len(head) - 1)], *rows]
    return [f"| {' | '.join(map(_cell, line))} |" for line in lines]


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
    return name.translate(_IN_TAGS)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
