"""A trim beside another worker's kernels, under both of torch's allocators, as JSON lines.

    PYTHONPATH=src:tests python tests/scheduler/trims_on_timeline.py [--out DIR] [--seconds S]
        [--device D] [--commit TEXT]

One worker holds the compute lock with some 300 ms of kernels in its stream; meanwhile another takes
the mem lock, is told that the device has too little, and trims. What there is to give back was
kept for the stream of the worker that trims (`own`) or for that of all kernels (`compute`). Every
case is a process with a picture of its lanes, and a row: how long the trim took, whether the
kernels were still running when it returned, and how long it held up the worker that computes. All
cases are in one picture as well, drawn by `trims_picture` from the rows.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch

from scheduler import trims_picture
from torchzk.bench import conditions
from torchzk.groth16.streams import Mark
from torchzk.scheduler.device_clocks import clocks_of
from torchzk.scheduler.device_tables import counts
from torchzk.scheduler.memory_budget import MemoryBudget
from torchzk.scheduler.service import DeviceSetup, Service
from torchzk.scheduler.sinks import open_run, timeline
from torchzk.scheduler.stages import RunRecord
from torchzk.scheduler.worker_device import CpuDevice, CudaDevice, Device, compute_stream
from torchzk.timeline import Timeline

ALLOCATORS = {"default": False, "expandable": True}
CASES = ("own", "compute")
CACHED = 8 << 30
"""Bytes that torch keeps and the trim gives back."""
KERNELS, CYCLES = 30, 20_000_000
"""How many, and of how many cycles each: a hundredth of a second at 2 GHz."""
KERNEL_STAGE, TRIM = "kernels", "trim"
_PATIENCE = 60.0


@dataclass
class Meeting:
    """Where the two workers wait for each other."""

    case: str
    device: torch.device
    computing: threading.Event = field(default_factory=threading.Event)
    trimmed: threading.Event = field(default_factory=threading.Event)
    trimmer: int = 0
    """The thread that is told that there is too little."""
    longest_pause: float = 0.0
    """Seconds between two small launches of the worker that computes, meanwhile."""


class Short:
    """A device that has no room for the worker that shall trim."""

    def __init__(self, device: Device, meeting: Meeting) -> None:
        self._device, self._meeting = device, meeting
        self.name, self.open_stream = device.name, device.open_stream
        self.is_lost = device.is_lost

    def free_bytes(self) -> int:
        short = threading.get_ident() == self._meeting.trimmer
        return 0 if short else self._device.free_bytes()

    def trim(self) -> None:
        try:
            self._device.trim()
        finally:
            self._meeting.trimmed.set()


def keep(meeting: Meeting) -> None:
    """Have torch keep memory for the current stream."""
    if meeting.device.type == "cuda":
        torch.empty(CACHED, dtype=torch.uint8, device=meeting.device).fill_(1)


class Part:
    """A partition; which of the two it is, its job knows."""

    planned_bytes = 1 << 20

    def __init__(self, meeting: Meeting, timeline: Timeline) -> None:
        self.meeting, self.timeline = meeting, timeline

    def prepare(self) -> None:
        """Nothing."""

    def stage(self) -> None:
        """Nothing."""

    def compute(self, check: Callable[[], None]) -> None:
        """Nothing."""

    def drop(self) -> None:
        """Nothing."""

    def finish(self) -> bytes:
        return b"done"


class Computes(Part):
    """Launches kernels, and then little ones until the other has trimmed."""

    def compute(self, check: Callable[[], None]) -> None:
        meeting, stream = self.meeting, compute_stream(self.meeting.device)
        if stream is None:
            self._launch(lambda: None)
            return
        with torch.cuda.stream(stream):
            if meeting.case == "compute":
                keep(meeting)
            self._launch(partial(torch.cuda._sleep, CYCLES))

    def _launch(self, kernel: Callable[[], None]) -> None:
        meeting = self.meeting
        # kept: what this stream gives back would be another thing that the trim takes from it
        kept = [torch.empty(1 << 10, device=meeting.device).fill_(0)]
        # what is launched first is loaded, which may wait for the device
        kernel()
        Mark.here(meeting.device).wait()
        with self.timeline.span(KERNEL_STAGE):
            for _ in range(KERNELS):
                kernel()
            meeting.computing.set()
            last, end = time.monotonic(), time.monotonic() + _PATIENCE
            while not meeting.trimmed.wait(0.001) and time.monotonic() < end:
                # takes the allocator's lock and the interpreter's, as every stage does
                kept.append(torch.empty(1 << 10, device=meeting.device).fill_(0))
                now = time.monotonic()
                meeting.longest_pause = max(meeting.longest_pause, now - last)
                last = now
            meeting.longest_pause = max(meeting.longest_pause, time.monotonic() - last)
            Mark.here(meeting.device).wait()


class Trims(Part):
    """Comes to the mem lock while the other one's kernels run."""

    def prepare(self) -> None:
        if self.meeting.case == "own":
            keep(self.meeting)
            Mark.here(self.meeting.device).wait()
        self.meeting.trimmer = threading.get_ident()
        self.meeting.computing.wait(_PATIENCE)


class Work:
    """A job of one partition."""

    n_partitions = 1

    def __init__(self, part: type[Part], meeting: Meeting) -> None:
        self._part, self._meeting = part, meeting

    def read(self) -> None:
        """Nothing."""

    def check(self) -> None:
        """Nothing."""

    def partition(self, index: int, device: Device, timeline: Timeline) -> Part:
        return self._part(self._meeting, timeline)

    def finish(self, pieces: Sequence[bytes]) -> bytes:
        return b"".join(pieces)


def measured(allocator: str, case: str, device: torch.device, out: Path) -> dict[str, Any]:
    """One case in this process: its row. The picture of its lanes lies in `out`."""
    if device.type == "cuda":
        change = getattr(torch._C, "_accelerator_setAllocatorSettings", None)
        settings = f"expandable_segments:{ALLOCATORS[allocator]}"
        (change or torch.cuda.memory._set_allocator_settings)(settings)
    meeting = Meeting(case, device)
    real: Device = CpuDevice() if device.type == "cpu" else CudaDevice(device)
    title = f"trim beside kernels: {allocator} allocator, kept for {case} stream"
    with open_run(out / "runs", title, lambda said: print(said, file=sys.stderr), {}) as run:
        run.clock = clocks_of([device])
        setup = DeviceSetup(Short(real, meeting), MemoryBudget(real.name, 1 << 30), 2)
        with Service([setup], timeline=timeline(run).backstage) as service:
            jobs = [service.submit(p.__name__, Work(p, meeting)) for p in (Trims, Computes)]
            done = [job.result(_PATIENCE) for job in jobs]
        record = run.record()
    folder = run.folder()
    if folder is not None:
        shutil.copy(folder / "lanes.png", out / f"trims-{allocator}-{case}.png")
    right = done == [b"done"] * 2
    row = {"allocator": allocator, "kept_for": case, "right": right}
    return row | figures(record, real.name) | paused(meeting)


def figures(record: RunRecord, device: str) -> dict[str, Any]:
    """What a run's timeline says of the trim and of the kernels beside it."""
    (trim,) = [span for span in record.spans if span.name == TRIM]
    (stage,) = [span for span in record.spans if span.name == KERNEL_STAGE]
    on_device = [d.span for d in record.device if d.of == stage]
    kernels = on_device[0] if on_device else stage
    return {
        "trim_ms": trim.seconds * 1e3,
        "kernels_ms": kernels.seconds * 1e3,
        "kernels_left_ms": (kernels.end_ns - trim.end_ns) / 1e6,
        "waited_for_kernels": trim.end_ns >= kernels.end_ns - 1_000_000,
        **counts(record, device),
    }


def paused(meeting: Meeting) -> dict[str, float]:
    return {"longest_pause_ms": 1e3 * meeting.longest_pause}


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, default=Path("trims"), help="rows and pictures")
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--seconds", type=float, default=30.0, help="of each case, at most")
    parser.add_argument("--commit", help="what rows say of the code, if not git")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    args.out.mkdir(parents=True, exist_ok=True)
    if args.one:
        allocator, case = args.one
        print(json.dumps(measured(allocator, case, torch.device(args.device), args.out)))
        return 0
    facts = conditions.standing(torch.device(args.device), args.commit)
    right, written = True, args.out / "trims.jsonl"
    for allocator in ALLOCATORS:
        for case in CASES:
            command = [sys.executable, __file__, "--one", allocator, case]
            command += ["--device", args.device, "--out", str(args.out)]
            try:
                done = subprocess.run(
                    command, stdout=subprocess.PIPE, text=True, timeout=args.seconds, check=True
                )
                row = json.loads(done.stdout.splitlines()[-1])
            except (subprocess.SubprocessError, ValueError, IndexError) as e:
                row = {"allocator": allocator, "kept_for": case, "right": False, "error": str(e)}
            row |= facts
            print(json.dumps(row), flush=True)
            with written.open("a") as file:
                file.write(json.dumps(row) + "\n")
            right &= row["right"]
    trims_picture.write(written, args.out / "trims.png")
    return int(not right)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
