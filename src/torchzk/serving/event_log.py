"""What happened, a line of JSON each. Text from outside is escaped, and bytes are never written."""

from __future__ import annotations

import json
import select
import sys
import threading
import time
from collections.abc import Callable
from typing import TextIO

_MOST_TEXT = 1000
"""Characters of one value."""
_PATIENCE = 200
"""Milliseconds for which whoever reads the log may keep one line waiting, and then no other."""

Value = str | int | float | bool | None


class EventLog:
    """For any number of threads. A log that cannot be written, or is not read, stops nobody."""

    def __init__(
        self, stream: TextIO | None = None, clock: Callable[[], float] = time.time
    ) -> None:
        """Args: stream: By default standard error."""
        self._stream, self._clock = stream, clock
        self._guard = threading.Lock()
        self._full, self._untold = False, 0
        self.lost = 0
        """Lines that could not be written."""

    def __call__(self, event: str, **values: Value) -> None:
        """Write an event with its values."""
        line = {"time": round(self._clock(), 6), "event": event}
        line.update((name, _plain(value)) for name, value in values.items())
        # ASCII on one line: no name a client gives can forge another
        text = json.dumps(line) + "\n"
        with self._guard:
            if self._untold:
                told = {"time": line["time"], "event": "log lost", "lines": self._untold}
                text = json.dumps(told) + "\n" + text
            try:
                stream = self._stream or sys.stderr
                if not self._has_room(stream):
                    raise BlockingIOError
                stream.write(text)
                stream.flush()
                self._untold = 0
            except (OSError, ValueError):
                self.lost += 1
                self._untold += 1

    def _has_room(self, stream: TextIO) -> bool:
        """Whether a pipe or a socket takes a line without waiting for whoever reads it."""
        poll = select.poll()
        try:
            poll.register(stream, select.POLLOUT)
        except (AttributeError, TypeError, ValueError, OSError):
            # none of the system's
            return True
        self._full = not poll.poll(0 if self._full else _PATIENCE)
        return not self._full


def _plain(value: object) -> Value:
    if isinstance(value, bool | int | float) or value is None:
        return value
    if isinstance(value, str):
        return value if len(value) <= _MOST_TEXT else value[:_MOST_TEXT] + "..."
    # payloads, proofs, whole requests: what is not plain may be secret
    return f"({type(value).__name__})"
