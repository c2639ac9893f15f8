"""Captures end however they go, one at a time; nobody waits for a device meanwhile."""

from __future__ import annotations

import gc
import threading
from typing import Any

import pytest
import torch

from torchzk import captures
from torchzk.backends import forget_tables
from torchzk.captures import at_rest, captured
from torchzk.scheduler import device_budget
from torchzk.scheduler.device_budget import half_of_the_rest
from torchzk.scheduler.worker_device import CudaDevice


class FakeGraph:
    """Notes its beginning and end, and whether garbage may be collected between."""

    def __init__(self, broken: bool = False) -> None:
        self.said, self.broken = list[str](), broken

    def capture_begin(self, capture_error_mode: str) -> None:
        self.said.append(capture_error_mode)

    def capture_end(self) -> None:
        self.said.append("ended")
        if self.broken:
            raise RuntimeError("CUDA error: operation failed due to a previous error")


def graph(broken: bool = False) -> Any:
    return FakeGraph(broken)


def test_a_capture_ends_however_it_goes() -> None:
    fine, stopped, broken = graph(), graph(), graph(broken=True)
    with captured(fine):
        assert not gc.isenabled()
    with pytest.raises(KeyboardInterrupt), captured(stopped):
        raise KeyboardInterrupt
    # the first error is told, not what follows from it
    with pytest.raises(ValueError, match="the first"), captured(broken):
        raise ValueError("the first")
    with pytest.raises(RuntimeError, match="previous error"), captured(graph(broken=True)):
        pass
    assert gc.isenabled()
    assert fine.said == stopped.said == broken.said == ["thread_local", "ended"]


def is_at_rest() -> bool:
    """Whether the calling thread keeps all others from a capture."""
    had: list[bool] = []

    def other() -> None:
        had.append(captures._LOCK.acquire(blocking=False))
        if had[0]:
            captures._LOCK.release()

    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    return not had[0]


def test_a_capture_and_rest_keep_others_out() -> None:
    assert not is_at_rest()
    with at_rest():
        assert is_at_rest()
    with captured(graph()):
        assert is_at_rest()
    assert not is_at_rest()


def test_a_device_is_waited_for_and_its_memory_given_back_at_rest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Both would break the capture of another thread, or be taken for a fault of the program."""
    pytest.importorskip("triton")
    device, said = torch.device("cuda", 0), list[tuple[str, bool]]()
    monkeypatch.setattr(torch.cuda, "synchronize", lambda _: said.append(("wait", is_at_rest())))
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: said.append(("empty", is_at_rest())))
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda _: 0)
    monkeypatch.setattr(device_budget, "budget", lambda *_: 2)
    CudaDevice(device).trim()
    forget_tables("triton", device)
    assert half_of_the_rest(device, None, 1) == 2
    assert said == [("empty", True), ("wait", True), ("empty", True), ("empty", True)]
