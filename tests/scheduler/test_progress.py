"""Progress on a terminal and in a log."""

from __future__ import annotations

import io
import re
import threading
import time

import pytest
from rich.console import Console

from torchzk.scheduler import progress
from torchzk.scheduler.progress import Progress


@pytest.fixture
def every_stage(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is too short to be told of."""
    monkeypatch.setattr(progress, "_WORTH_TELLING", 0.0)


@pytest.fixture
def by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody looks at what runs but the test."""
    monkeypatch.setattr(progress, "_TICK", 3600.0)


@pytest.mark.usefixtures("every_stage")
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


def test_what_takes_no_time_is_not_told_unless_it_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_WORTH_TELLING", 3600.0)
    stream = io.StringIO()
    with Progress(Console(file=stream)) as shown:
        with shown.watcher.span("wait for key"):
            pass
        with pytest.raises(ValueError), shown.watcher.span("verify"):
            raise ValueError
    assert stream.getvalue() == "verify: failed after 0.00 s\n"


@pytest.mark.usefixtures("by_hand")
def test_a_log_hears_of_a_long_stage() -> None:
    stream = io.StringIO()
    with Progress(Console(file=stream)) as shown:
        start = time.monotonic()
        with shown.watcher.span("make key"), shown.watcher.span("setup: h"):
            shown._beat(start + 1)
            assert stream.getvalue() == ""
            # soon, since nothing was said of it yet; and then more seldom
            shown._beat(start + 3)
            shown._beat(time.monotonic() + 3)
            shown.watcher.advance(0.25)
            shown._beat(time.monotonic() + 6)
    first, second, *last = stream.getvalue().splitlines()
    assert re.fullmatch(r"make key / setup: h: \d s \.\.\.", first)
    assert second == "make key / setup: h: 25% ..."
    # what was told of is told when it ends, however short it was
    assert [line.rpartition(":")[0] for line in last] == ["make key / setup: h"]


def test_somebody_looks_at_what_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_TICK", 0.001)
    looked = threading.Event()
    monkeypatch.setattr(Progress, "_beat", lambda self, now: looked.set())
    with Progress(Console(file=io.StringIO())):
        assert looked.wait(60)
    assert "progress" not in [thread.name for thread in threading.enumerate()]


@pytest.mark.usefixtures("every_stage")
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


@pytest.mark.parametrize("width", [100, 76, 60, 44, 40, 30])
def test_a_line_is_no_wider_than_the_terminal(width: int) -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=width, color_system=None)
    shown = Progress(console)
    with shown.watcher.span("load torch"), console.capture() as capture:
        shown.watcher.advance(0.5)
        console.print(shown._render())
    (line,) = capture.get().splitlines()
    assert len(line) <= width and "50%" in line and line.rstrip().endswith(" s")
    assert ("━" in line) == (width >= 60)
