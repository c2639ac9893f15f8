"""Whether this process is being moved to swap, which makes proofs many times slower."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from torchzk.timeline import Span, Timeline

_STATUS = Path("/proc/self/status")
_WORTH_TELLING = 1 << 28
"""Bytes; less than that are pages that nobody misses."""
_BETWEEN = 1.0
"""Seconds between two looks."""


def swapped_bytes() -> int:
    """What of this process is in swap; 0 where the system does not say."""
    with suppress(OSError):
        found = re.search(r"^VmSwap:\s+(\d+) kB$", _STATUS.read_text(), re.MULTILINE)
        return int(found[1]) << 10 if found else 0
    return 0


def swap_watch(warn: Callable[[str], None]) -> Timeline:
    """A listener of a run that looks when a stage ends, and warns once."""
    lock = threading.Lock()
    next_look = 0.0

    def on_close(_: Span) -> None:
        nonlocal next_look
        with lock:
            now = time.monotonic()
            if now < next_look:
                return
            swapped = swapped_bytes()
            told = swapped >= _WORTH_TELLING
            next_look = float("inf") if told else now + _BETWEEN
        if told:
            warn(
                f"{swapped / 2**30:.1f} GiB of this process are in swap, which slows it down many "
                "times: give it more memory, or prove less at once"
            )

    return Timeline(on_close=on_close)
