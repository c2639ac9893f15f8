"""What happened, a line of JSON each. Text from outside is escaped, and bytes are never written."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable
from typing import TextIO

_MOST_TEXT = 1000
"""Characters of one value."""

Value = str | int | float | bool | None


class EventLog:
    """For any number of threads. A log that cannot be written stops nobody."""

    def __init__(
        self, stream: TextIO | None = None, clock: Callable[[], float] = time.time
    ) -> None:
        """Args: stream: By default standard error."""
        self._stream, self._clock = stream, clock
        self._guard = threading.Lock()
        self.lost = 0
        """Lines that could not be written."""

    def __call__(self, event: str, **values: Value) -> None:
        """Write an event with its values."""
        line = {"time": round(self._clock(), 6), "event": event}
        line.update((name, _plain(value)) for name, value in values.items())
        with self._guard:
            try:
                stream = self._stream or sys.stderr
                # ASCII on one line: no name a client gives can forge another
                stream.write(json.dumps(line) + "\n")
                stream.flush()
            except (OSError, ValueError):
                self.lost += 1


def _plain(value: object) -> Value:
    if isinstance(value, bool | int | float) or value is None:
        return value
    if isinstance(value, str):
        return value if len(value) <= _MOST_TEXT else value[:_MOST_TEXT] + "..."
    # payloads, proofs, whole requests: what is not plain may be secret
    return f"({type(value).__name__})"
