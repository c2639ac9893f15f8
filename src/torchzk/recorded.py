"""A session that is watched on the terminal and recorded in `runs/`: what prove and setup share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from torchzk.cli import Report, Screen
from torchzk.config import Config
from torchzk.scheduler.progress import Progress
from torchzk.scheduler.sinks import Run, open_run, timeline

if TYPE_CHECKING:
    from torchzk.api import Session


@contextmanager
def recorded_session(config: Config, screen: Screen, verb: str) -> Iterator[tuple[Run, Session]]:
    """Open a session, with progress on `screen` and its timeline kept however the body ends."""
    with (
        Progress(screen.console) as progress,
        open_run(config.runs, verb, screen.warn, {}) as run,
    ):
        watched = timeline(run, progress.watcher)
        with watched.span("load torch"):
            # late: what is wrong with a config is said without waiting for it
            from torchzk import api
            from torchzk.backends import compile_ahead
            from torchzk.scheduler.device_clock import clock_of
        session = api.open_session(config, watched, screen.warn)
        run.clock = clock_of(session.device)
        run.title = f"{verb} {session.circuit.name}"
        chosen = " (auto)" if config.device == "auto" else ""
        run.facts |= {"device": f"{session.device}{chosen}", "backend": str(session.choice)}
        if session.choice.advice:
            screen.warn(session.choice.advice)
        if session.choice.name != "torch":
            with watched.span("compile kernels"):
                warmed = compile_ahead(session.choice.name, session.device, watched.advance)
            for fault in warmed.failed if warmed else ():
                screen.warn(f"a kernel does not compile: {fault}")
            with watched.span("check kernels"):
                variant = session.variant()
            run.facts["backend"] += f", {variant.summary}" if variant else ""
        yield run, session


def backend_report(session: Session) -> Report:
    """The backend and the variant of its kernels, for a command's JSON."""
    variant = session.variant()
    return {
        "backend": session.choice.name,
        "variant": variant.name if variant else None,
        "triton": variant.triton if variant else None,
    }
