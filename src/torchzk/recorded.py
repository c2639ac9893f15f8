"""A session that is watched on the terminal and recorded in `runs/`: what prove and setup share."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from torchzk.cli import Report, Screen
from torchzk.config import Config
from torchzk.files import atomic_write
from torchzk.interrupts import loading_torch
from torchzk.scheduler.progress import Progress
from torchzk.scheduler.sinks import Run, open_run, peak_rss, timeline
from torchzk.scheduler.swap_watch import swap_watch
from torchzk.scheduler.timeline_lines import timeline_lines
from torchzk.summary import (
    device_report,
    device_stages,
    print_devices,
    print_stages,
    stage_seconds,
)

if TYPE_CHECKING:
    from torchzk.api import Session


@contextmanager
def recorded_session(config: Config, screen: Screen, verb: str) -> Iterator[tuple[Run, Session]]:
    """As `recorded_sessions`, on the first device alone."""
    with recorded_sessions(config, screen, verb, most=1) as (run, sessions):
        yield run, sessions[0]


@contextmanager
def recorded_sessions(
    config: Config, screen: Screen, verb: str, most: int | None = None
) -> Iterator[tuple[Run, list[Session]]]:
    """Open a session a device, with progress on `screen`, the timeline kept however the body ends.

    Args:
        most: Devices, the first that the config names.
    """
    with Progress(screen.console) as progress, ExitStack() as ending:
        writing = ExitStack()
        ending.callback(writing.close)
        run = ending.enter_context(open_run(config.runs, verb, screen.warn, {}, config.runs_limit))
        # drawing takes a moment, which nobody should have to guess at
        ending.callback(lambda: writing.enter_context(progress.watcher.span("write timeline")))
        watched = timeline(run, progress.watcher, swap_watch(screen.warn))
        with loading_torch(watched):
            # late: what is wrong with a config is said without waiting for it
            from torchzk import api
            from torchzk.backends import compile_ahead
            from torchzk.scheduler.device_clock import clock_of
            from torchzk.scheduler.device_clocks import clocks_of
        sessions = api.open_sessions(config, watched, screen.warn)[:most]
        session, devices = sessions[0], [each.device for each in sessions]
        warn_of_limit(screen, session)
        run.clock = clock_of(devices[0]) if len(devices) == 1 else clocks_of(devices)
        run.title = f"{verb} {session.circuit.name}"
        chosen = " (auto)" if config.device == "auto" else ""
        names = ", ".join(map(str, devices))
        run.facts |= {"device": f"{names}{chosen}", "backend": str(session.choice)}
        if session.choice.advice:
            screen.warn(session.choice.advice)
        if session.choice.name != "torch":
            with watched.span("compile kernels"):
                warmed = compile_ahead(session.choice.name, session.device, watched.advance)
            for fault in warmed.failed if warmed else ():
                screen.warn(f"a kernel does not compile: {fault}")
            with watched.span("check kernels"):
                variant, *_ = [each.variant() for each in sessions]
            run.facts["backend"] += f", {variant.summary}" if variant else ""
        yield run, sessions


def backend_report(session: Session) -> Report:
    """The backend and the variant of its kernels, for a command's JSON."""
    variant = session.variant()
    return {
        "backend": session.choice.name,
        "variant": variant.name if variant else None,
        "triton": variant.triton if variant else None,
    }


def use_report(run: Run) -> Report:
    """What a run took of host and devices, for a command's JSON."""
    record = run.record()
    return {
        "peak_rss_bytes": peak_rss(),
        "stages": stage_seconds(record.spans),
        "device_stages": device_stages(record),
        "devices": device_report(record),
    }


def show_run(screen: Screen, run: Run, report: Report) -> None:
    """Put the run's folder into the report, and print what stages and devices took."""
    folder = run.folder()
    report["run"] = str(folder) if folder else None
    record = run.record()
    print_stages(screen.console, record)
    print_devices(screen.console, record)


def key_is(insecure: bool) -> tuple[str, str, str]:
    """The row of a command's last table that says what a key is worth."""
    return "key is", "INSECURE" if insecure else "not a dev key", "bold red" if insecure else ""


def warn_of(screen: Screen, *, insecure_key: bool, zero_knowledge: bool) -> None:
    """Warn of a key or randomness that make a proof worth less."""
    if insecure_key:
        screen.warn(
            "INSECURE KEY: made from known secrets, so proofs under it can be forged. "
            "For development alone"
        )
    if not zero_knowledge:
        screen.warn(
            "NOT ZERO-KNOWLEDGE: r and s were given, and whoever knows them can learn of the "
            "witness from the proof"
        )


def warn_of_limit(screen: Screen, session: Session) -> None:
    """Warn of a limit that limits nothing."""
    if session.config.vram_limit is not None and session.device.type == "cpu":
        screen.warn("vram_limit is for GPUs; on the CPU nothing keeps to it")


def watch_kernels(run: Run, seconds: float, screen: Screen, partitions: int) -> None:
    """Look at every kernel of a run for some time, from its third partition on.

    Args:
        partitions: How many there are at least; with fewer than three, from the last one on.
    """
    from torchzk.scheduler.kernel_profile import KernelWatch

    run.watch = KernelWatch(seconds, screen.warn, skipped=min(2, partitions - 1))


def attach_profiler(run: Run, session: Session) -> None:
    """Where kernels are to be profiled, have the profiler ready before a partition begins."""
    if run.watch is not None:
        with session.timeline.span("attach profiler"):
            run.watch.attach()


def write_lines(where: str, run: Run) -> None:
    """Write the `TIMELINE` lines of a run to a file, or to stderr where that is `-`."""
    lines = "".join(f"{line}\n" for line in timeline_lines(run.record()))
    if where == "-":
        sys.stderr.write(lines)
        return
    with atomic_write(Path(where)) as file:
        file.write(lines.encode())
