"""A run that is moved to swap says so, once."""

from __future__ import annotations

from pathlib import Path

import pytest

from torchzk.scheduler import swap_watch
from torchzk.scheduler.sinks import Run, timeline

STATUS = "Name:\tpython\nVmRSS:\t  473600 kB\nVmSwap:\t{:>8} kB\nThreads:\t3\n"


def test_this_process_is_read() -> None:
    assert 0 <= swap_watch.swapped_bytes() < 1 << 40


def test_it_is_said_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    status = tmp_path / "status"
    monkeypatch.setattr(swap_watch, "_STATUS", status)
    monkeypatch.setattr(swap_watch, "_BETWEEN", 0.0)
    said: list[str] = []
    watched = timeline(Run(tmp_path, "prove", said.append), swap_watch.swap_watch(said.append))
    # no such file is no swap
    for kib in (None, 0, (1 << 18) - 1, 3 << 19, 5 << 20):
        if kib is not None:
            status.write_text(STATUS.format(kib))
        with watched.span("witness"):
            pass
    assert len(said) == 1 and said[0].startswith("1.5 GiB of this process are in swap")


def test_it_looks_now_and_then(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[int] = []

    def look() -> int:
        looks.append(1)
        return 0

    monkeypatch.setattr(swap_watch, "swapped_bytes", look)
    monkeypatch.setattr(swap_watch, "_BETWEEN", 3600.0)
    watched = swap_watch.swap_watch(lambda _: None)
    for _ in range(5):
        with watched.span("msm"):
            pass
    assert len(looks) == 1
