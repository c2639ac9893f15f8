"""Progress on a terminal: the stages that run, with bars; a plain line a stage elsewhere.

Of stages that take no time nothing is said, unless they fail. A log hears of a stage that is not
done after two seconds, and then every five.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from types import TracebackType

from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from torchzk.timeline import Span, Timeline

_SHOWN_DONE = 6
_WORTH_TELLING = 0.1
"""Seconds that a stage must take to be told of."""
_SILENCE = 2.0
"""Seconds after which a log hears of a stage that it has not heard of."""
_HEARTBEAT = 5.0
"""Seconds after which it gets another line of a stage that goes on."""
_TICK = 0.5
"""Seconds between two looks at what runs."""
_NAME, _BAR, _FIGURES = 24, 32, 19
"""Columns of a stage's name, of its bar at most, and of all the rest."""


@dataclass
class _Open:
    name: str
    start: float
    fraction: float | None = None
    told: bool = False


class Progress:
    """Watches a timeline, from any thread. A context manager: leaves the terminal as it was."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._open: dict[int, list[_Open]] = {}
        self._done: list[tuple[int, str, float]] = []
        self._last_line = time.monotonic()
        self._over = threading.Event()
        self._ticker: threading.Thread | None = None
        self._live: Live | None = None
        if console.is_terminal:
            self._live = Live(
                get_renderable=self._render,
                console=console,
                transient=True,
                refresh_per_second=8,
                redirect_stdout=False,
                redirect_stderr=False,
            )

    @property
    def watcher(self) -> Timeline:
        """What to hand to the timeline of a run."""
        return Timeline(on_close=self._closed, on_open=self._opened, on_advance=self._advanced)

    def __enter__(self) -> Progress:
        if self._live is not None:
            self._live.start()
        else:
            self._ticker = threading.Thread(target=self._tick, name="progress", daemon=True)
            self._ticker.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._over.set()
        if self._live is not None:
            self._live.stop()
        if self._ticker is not None:
            self._ticker.join()

    def _opened(self, name: str) -> None:
        self._mine().append(_Open(name, time.monotonic()))

    def _closed(self, span: Span) -> None:
        mine = self._mine()
        path = self._path(mine, span.lane)
        told = mine.pop().told if mine else False
        depth = len(mine)
        if not mine:
            del self._open[threading.get_ident()]
        if span.failed:
            self._line(f"{path}: failed after {span.seconds:.2f} s")
        if span.seconds < _WORTH_TELLING and not told:
            return
        if self._live is None and not span.failed:
            self._line(f"{path}: {span.seconds:.2f} s")
        self._done.append((depth, span.name, span.seconds))

    def _advanced(self, fraction: float) -> None:
        mine = self._open.get(threading.get_ident())
        if mine:
            mine[-1].fraction = min(max(fraction, 0.0), 1.0)

    def _tick(self) -> None:
        while not self._over.wait(_TICK):
            self._beat(time.monotonic())

    def _beat(self, now: float) -> None:
        """Tell a log what goes on, if it has heard nothing for too long."""
        running = [list(spans) for spans in list(self._open.values())]
        news = [spans for spans in running if spans and not spans[-1].told]
        told = news or [spans for spans in running if spans]
        if not told or now - self._last_line < (_SILENCE if news else _HEARTBEAT):
            return
        for spans in told:
            stage = spans[-1]
            stage.told = True
            known = stage.fraction is not None
            how_far = f"{stage.fraction:.0%}" if known else f"{now - stage.start:.0f} s"
            self._line(f"{self._path(spans)}: {how_far} ...")

    def _mine(self) -> list[_Open]:
        """The open spans of the calling thread, outermost first."""
        return self._open.setdefault(threading.get_ident(), [])

    def _path(self, mine: list[_Open], lane: str = "") -> str:
        """A stage under those around it; with its lane where others have some, or several jobs."""
        several = lane and (len(self._open) > 1 or " partition " in lane)
        return " / ".join([*([lane] if several else []), *(stage.name for stage in mine)])

    def _line(self, text: str) -> None:
        self._last_line = time.monotonic()
        # a log keeps a stage on one line; a terminal's own wrapping would confuse the display
        whole = self._live is None
        self._console.print(text, markup=False, highlight=False, soft_wrap=whole, style="dim")

    def _render(self) -> Table:
        """The last stages done and the bars of those that run."""
        table = Table.grid(padding=(0, 1))
        table.add_column(width=1)
        # what is wider than the terminal would not be erased
        room = max(0, self._console.width - _FIGURES)
        table.add_column(width=None if room > _NAME else room, min_width=min(_NAME, room))
        table.add_column(width=max(0, min(_BAR, room - _NAME)))
        table.add_column(justify="right", min_width=4)
        table.add_column(justify="right", min_width=8)
        for depth, name, seconds in self._done[-_SHOWN_DONE:]:
            table.add_row(
                Text("✓", "green"),
                Text("  " * depth + name, "dim"),
                "",
                "",
                Text(f"{seconds:.2f} s", "dim"),
            )
        now = time.monotonic()
        running = [one for spans in list(self._open.values()) for one in enumerate(list(spans))]
        for depth, stage in running:
            known = stage.fraction is not None
            bar = ProgressBar(
                total=1.0 if known else None, completed=stage.fraction or 0.0, pulse=not known
            )
            percent = f"{stage.fraction:.0%}" if stage.fraction is not None else ""
            table.add_row(
                Text("▸", "cyan"),
                Text("  " * depth + stage.name, "bold"),
                bar,
                percent,
                f"{now - stage.start:.1f} s",
            )
        return table
