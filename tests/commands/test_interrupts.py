"""Signals that come while torch is loaded, which must not be broken off."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator

import pytest

from child_environment import run_python
from torchzk.interrupts import Signal, loading_torch, signals_raise
from torchzk.timeline import Span, Timeline


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    """Those of before are there after a test."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_is_heard_when_torch_is_there(number: signal.Signals) -> None:
    spans: list[Span] = []
    loaded = False
    with pytest.raises(Signal) as stop, signals_raise() as received:
        with loading_torch(Timeline(on_close=spans.append)):
            signal.raise_signal(number)
            loaded = True
        raise AssertionError("went on after the signal")
    assert loaded and received == [number] == [stop.value.number]
    assert [(span.name, span.failed) for span in spans] == [("load torch", True)]


def test_handlers_are_those_of_before() -> None:
    before = [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)]
    with signals_raise():
        inside = [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)]
        with pytest.raises(ImportError), loading_torch(Timeline()):
            raise ImportError
        assert [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)] == inside
    assert [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)] == before


def test_a_second_signal_waits_for_nothing() -> None:
    code = (
        "import signal\n"
        "from torchzk.interrupts import loading_torch, signals_raise\n"
        "from torchzk.timeline import Timeline\n"
        "with signals_raise(), loading_torch(Timeline()):\n"
        "    signal.raise_signal(signal.SIGTERM)\n"
        "    print('first', flush=True)\n"
        "    signal.raise_signal(signal.SIGTERM)\n"
        "    print('second', flush=True)\n"
    )
    done = run_python("-c", code, timeout=60)
    assert (done.returncode, done.stdout) == (-signal.SIGTERM, "first\n")


def test_other_threads_have_no_handlers() -> None:
    done: list[bool] = []

    def load() -> None:
        with loading_torch(Timeline()):
            done.append(True)

    thread = threading.Thread(target=load)
    thread.start()
    thread.join()
    assert done == [True]
