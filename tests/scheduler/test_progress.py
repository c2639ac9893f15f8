"""Progress on a terminal and in a log."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from torchzk.scheduler import progress
from torchzk.scheduler.progress import Progress


def test_a_log_gets_one_line_a_stage() -> None:
    stream = io.StringIO()
    with Progress(Console(file=stream, width=20)) as shown:
        with shown.watcher.span("dev key"), shown.watcher.span("setup: a stage of a long name"):
            shown.watcher.advance(0.5)
        with pytest.raises(ValueError), shown.watcher.span("verify"):
            raise ValueError
    lines = [line.rpartition(" ")[0].rpartition(" ")[0] for line in stream.getvalue().splitlines()]
    assert lines == [
        "dev key / setup: a stage of a long name:",
        "dev key:",
        "verify: failed after",
    ]


def test_a_log_hears_of_a_long_stage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_HEARTBEAT", 0.0)
    stream = io.StringIO()
    with Progress(Console(file=stream)) as shown, shown.watcher.span("msm h"):
        shown.watcher.advance(0.25)
    assert stream.getvalue().splitlines()[0] == "msm h: 25% ..."


def test_a_terminal_shows_what_runs_and_is_left_clean() -> None:
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True, width=100, height=30)
    with Progress(console) as shown:
        with shown.watcher.span("witness"):
            pass
        with shown.watcher.span("msm h"):
            shown.watcher.advance(0.42)
            with console.capture() as capture:
                console.print(shown._render())
    text = capture.get()
    assert "✓" in text and "witness" in text
    assert "msm h" in text and "42%" in text and "━" in text
    # the display is erased line by line: up, clear
    assert stream.getvalue().rstrip().endswith("\x1b[2K")


def test_advance_without_a_stage_is_let_be() -> None:
    stream = io.StringIO()
    with Progress(Console(file=stream)) as shown:
        shown.watcher.advance(0.5)
    assert stream.getvalue() == ""
