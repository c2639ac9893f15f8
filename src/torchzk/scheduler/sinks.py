"""Where a run's timeline goes: `runs/<stamp>/` with events, a trace and a picture.

A log is worth less than a proof: a disk that is full, slow or read-only costs a warning.
"""

from __future__ import annotations

import resource
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from torchzk.config import RunsLimit
from torchzk.errors import ConfigError, InputError, KeyFileError
from torchzk.files import atomic_write
from torchzk.scheduler.device_samples import LevelSample, VramSample
from torchzk.scheduler.run_folders import RunFolder, new_folder, remove_old
from torchzk.scheduler.stages import DeviceSpan, MemorySample, RunRecord
from torchzk.timeline import Span, Timeline

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    # which loads torch
    from torchzk.scheduler.device_clock import DeviceClock
    from torchzk.scheduler.device_clocks import DeviceClocks
    from torchzk.scheduler.kernel_profile import KernelWatch

_PATIENCE = 30.0
"""Seconds a log disk may take before the command ends without its log."""
_GRACE = 5.0
"""The same, once somebody has asked the command to end."""


@dataclass
class Run:
    """Records the spans of one command and writes them down when it ends."""

    runs: Path
    """The folder of all runs."""
    title: str
    warn: Callable[[str], None]
    facts: dict[str, str] = field(default_factory=dict)
    limit: RunsLimit = field(default_factory=RunsLimit)
    """How much is kept of the folder of all runs, this one included."""
    drawn: bool = True
    """Whether pictures are made of it, which takes a second."""
    spans: list[Span] = field(default_factory=list)
    backstage: list[Span] = field(default_factory=list)
    """Those of workers, locks and queues."""
    samples: list[MemorySample] = field(default_factory=list)
    clock: DeviceClock | DeviceClocks | None = None
    """Hears of spans from when it is set: which device works is known some spans into a run."""
    watch: KernelWatch | None = None
    """Looks at kernels one by one for a while, where that was asked for."""
    levels: list[LevelSample] = field(default_factory=list)
    planned: dict[str, int] = field(default_factory=dict)
    """Bytes of the device that a stage may take by the plan, by the stage's name."""
    _process: psutil.Process = field(default_factory=psutil.Process)
    """Kept: to make one takes longer than to ask it, and a device may be idle meanwhile."""
    _device: list[DeviceSpan] = field(default_factory=list)
    _vram: list[VramSample] = field(default_factory=list)
    _folder: RunFolder | None = None
    _no_folder: bool = False

    def opened(self, name: str) -> None:
        """A span opens: sample the memory."""
        self._sample()
        if self.clock is not None:
            self.clock.opened(name)
        if self.watch is not None:
            self.watch.opened(name)

    def closed(self, span: Span) -> None:
        """Keep a span."""
        if self.clock is not None:
            self.clock.closed(span)
        self.spans.append(span)
        self._sample()

    def level(self, name: str, value: int) -> None:
        """Something is there in another quantity than before."""
        self.levels.append(LevelSample(time.perf_counter_ns(), name, value))

    def _sample(self) -> None:
        rss = self._process.memory_info().rss
        self.samples.append(MemorySample(time.perf_counter_ns(), rss))

    def folder(self) -> Path | None:
        """The run's own folder, made on first use; None where it cannot be made, with a warning."""
        if self._folder is None and not self._no_folder:
            try:
                self._folder = new_folder(self.runs)
            except OSError as e:
                self._no_folder = True
                self.warn(f"no timeline is kept: cannot make a folder in {self.runs}: {e.strerror}")
        return None if self._folder is None else self._folder.path

    def record(self) -> RunRecord:
        """What was recorded until now; waits until the device has done what closed spans asked.

        Kernels that are being profiled are not from here on.
        """
        if self.clock is not None:
            self._device += self.clock.take()
            self._vram += self.clock.take_samples()
            if self.clock.fault is not None:
                self.facts["device times"] = f"stopped: {self.clock.fault}"
        return RunRecord(
            self.title,
            (*self.spans, *self.backstage),
            tuple(self.samples),
            peak_rss(),
            dict(self.facts),
            tuple(self._device),
            dict(self.planned),
            tuple(self._vram),
            tuple(self.levels),
            self.watch.take() if self.watch is not None else (),
        )

    def flush(self) -> None:
        """Write trace, picture and events; warns of what cannot be written and never raises."""
        folder = self.folder()
        if folder is None:
            return
        # a disk that hangs must not hang the command: nobody waits for this thread for ever; and
        # not by a join, which takes the thread for dead once it was interrupted
        written = threading.Event()
        writer = threading.Thread(target=self._write, args=(folder, written), daemon=True)
        try:
            writer.start()
            written.wait(_PATIENCE)
        except BaseException:
            # interrupted: what is nearly written is worth a moment, half a file nothing
            written.wait(_GRACE)
            raise
        if not written.is_set():
            self.warn(f"{folder}: still writing after {_PATIENCE:.0f} s, the timeline is given up")

    def _write(self, folder: Path, written: threading.Event) -> None:
        try:
            # here, since a device may hang as well
            record = self.record()
            # late: imports that no proof waits for
            from torchzk.scheduler import chrome_trace, tensorboard_log

            chrome_trace.write_trace(record, folder / "trace.json")
            drawn = _draw(record, folder) if self.drawn else {}
            tensorboard_log.write_events(record, folder, drawn)
        except Exception as e:
            # whatever a log does, the proof is made
            self.warn(f"the timeline is incomplete: {type(e).__name__}: {e}")
        finally:
            self._make_room()
            written.set()

    def _make_room(self) -> None:
        """Remove what is too much of the folder of all runs; a disk that was full has room then."""
        if self._folder is not None:
            self._folder.release()
        remove_old(self.runs, self.limit)


def _draw(record: RunRecord, folder: Path) -> dict[str, NDArray[np.uint8]]:
    """Pictures of a run, written to its folder; their pixels, by name."""
    # late: a second of imports that no proof waits for
    from torchzk.scheduler import gantt, lane_picture

    pictures = {"timeline": gantt.draw(record, backstage=False)}
    if lane_picture.has_lanes(record):
        pictures["lanes"] = lane_picture.draw(record)
    for name, picture in pictures.items():
        with atomic_write(folder / f"{name}.png") as file:
            picture.print_png(file)  # type: ignore[no-untyped-call]
    return {name: gantt.pixels(picture) for name, picture in pictures.items()}


@contextmanager
def open_run(
    runs: Path,
    title: str,
    warn: Callable[[str], None],
    facts: dict[str, str],
    limit: RunsLimit | None = None,
) -> Iterator[Run]:
    """A run that is flushed however the body ends.

    Input, keys or config that were refused leave no folder: nothing ran. A failure, an interrupt
    and success do.
    """
    run = Run(runs, title, warn, facts, limit or RunsLimit())
    try:
        yield run
    except (ConfigError, InputError, KeyFileError):
        raise
    except BaseException as e:
        stopped = isinstance(e, KeyboardInterrupt)
        run.facts["outcome"] = "interrupted" if stopped else type(e).__name__
        run.flush()
        raise
    run.flush()


def timeline(run: Run, *watchers: Timeline) -> Timeline:
    """A timeline that tells the run and then each of the watchers."""

    def on_open(name: str) -> None:
        run.opened(name)
        for watcher in watchers:
            watcher.on_open(name)

    def on_close(span: Span) -> None:
        run.closed(span)
        for watcher in watchers:
            watcher.on_close(span)

    def on_advance(fraction: float) -> None:
        for watcher in watchers:
            watcher.on_advance(fraction)

    def on_level(name: str, value: int) -> None:
        run.level(name, value)
        for watcher in watchers:
            watcher.on_level(name, value)

    behind = Timeline(on_close=run.backstage.append, on_level=on_level)
    return Timeline(
        on_close=on_close,
        on_open=on_open,
        on_advance=on_advance,
        on_level=on_level,
        behind=behind,
    )


def peak_rss() -> int:
    """The most memory this process had resident, in bytes."""
    # the kernel of Linux counts in KiB
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
