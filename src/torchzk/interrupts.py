"""Signals as exceptions, and what they may not break off."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from torchzk.timeline import Timeline

_WATCHED = (signal.SIGINT, signal.SIGTERM)


class Signal(KeyboardInterrupt):
    """A signal on its way up; not an `Exception`, so that no handler takes it for a fault."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


@contextmanager
def signals_raise() -> Iterator[list[int]]:
    """Turn the first SIGINT or SIGTERM into a `Signal`; a second one ends the process at once.

    Yields the numbers of those that came.
    """
    received: list[int] = []

    def stop(number: int, _: FrameType | None) -> None:
        received.append(number)
        for other in _WATCHED:
            signal.signal(other, signal.SIG_DFL)
        raise Signal(number)

    before = {number: signal.signal(number, stop) for number in _heard()}
    try:
        yield received
    finally:
        if not received:
            for number, handler in before.items():
                signal.signal(number, handler)


@contextmanager
def loading_torch(watched: Timeline) -> Iterator[None]:
    """The body imports torch: a stage of its own, at whose end signals are heard that came in it.

    A C++ library that was loaded by half ends the process when anybody asks for it again.
    """
    late: list[int] = []

    def wait(number: int, _: FrameType | None) -> None:
        if late:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        late.append(number)

    # handlers are the main thread's, and so are signals
    here = threading.current_thread() is threading.main_thread()
    before = {number: signal.signal(number, wait) for number in _heard()} if here else {}
    with watched.span("load torch"):
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
            for came in late:
                signal.raise_signal(came)


def _heard() -> list[signal.Signals]:
    """What a parent told us to ignore stays ignored."""
    return [n for n in _WATCHED if signal.getsignal(n) is not signal.SIG_IGN]
