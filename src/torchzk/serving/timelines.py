"""What a service did, period by period: a folder with a trace and TensorBoard events for each.

Of a period only so many spans are kept, the first, so that neither memory nor time to write grows
with the load.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from torchzk.config import RunsLimit
from torchzk.scheduler.sinks import Run
from torchzk.timeline import Span, Timeline

_MOST_SPANS = 5000
"""Of a period: some seconds of small proofs, or minutes of large ones."""


class Timelines:
    """Hears of spans from any thread, and writes them down from one of its own. Use in a `with`."""

    def __init__(
        self,
        runs: Path,
        limit: RunsLimit,
        period: float,
        warn: Callable[[str], None],
        most_spans: int = _MOST_SPANS,
    ) -> None:
        """Nothing is written before there is a span.

        Args:
            runs: The folder of all runs.
            limit: How much of it is kept.
            period: Seconds until what was heard is written.
            warn: Told of what cannot be written.
            most_spans: Spans and levels of a period; what comes then is counted alone.
        """
        self._runs, self._limit, self._period, self._warn = runs, limit, period, warn
        self._most = most_spans
        self._guard = threading.Lock()
        self._run, self._heard = self._new(), 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._write_for_ever, name="timelines", daemon=True)

    def __enter__(self) -> Timelines:
        self._thread.start()
        return self

    def __exit__(
        self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None
    ) -> None:
        """Write what is left."""
        self._stop.set()
        self._thread.join()

    def timeline(self, also: Timeline) -> Timeline:
        """A timeline that tells these and `also`, of workers and locks as of everything else."""

        def on_close(span: Span) -> None:
            also.on_close(span)
            self._keep(lambda run: run.closed(span))

        def behind(span: Span) -> None:
            also.on_close(span)
            self._keep(lambda run: run.backstage.append(span))

        def on_level(name: str, value: int) -> None:
            also.on_level(name, value)
            self._keep(lambda run: run.level(name, value))

        return Timeline(
            on_close=on_close,
            on_level=on_level,
            behind=Timeline(on_close=behind, on_level=on_level),
        )

    def _new(self) -> Run:
        return Run(self._runs, "serve", self._warn, limit=self._limit, drawn=False)

    def _keep(self, add: Callable[[Run], None]) -> None:
        with self._guard:
            self._heard += 1
            if self._heard <= self._most:
                add(self._run)

    def _write_for_ever(self) -> None:
        stopped = False
        while not stopped:
            stopped = self._stop.wait(self._period)
            with self._guard:
                run, heard = self._run, self._heard
                self._run, self._heard = self._new(), 0
            if heard == 0:
                continue
            if heard > self._most:
                run.facts["left out"] = f"{heard - self._most} of {heard} spans and levels"
            run.flush()
