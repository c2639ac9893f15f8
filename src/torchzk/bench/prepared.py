"""A benchmark with its inputs made, ready to be timed and judged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torchzk.bench.cases import Benchmark
from torchzk.bench.workshop import Workshop


@dataclass(frozen=True)
class Prepared:
    """What is timed, and what decides whether its result is right."""

    call: Callable[[], Any]
    is_right: Callable[[Any], bool]
    """Of what `call` returned; equality, over all of the result."""
    work: float
    """Units of work in a call."""
    work_of: str
    """What they are: products, points, bytes."""
    floor: float | None
    """Seconds of a call at least, on one H200; see `floors`."""
    how: str = ""
    """What is special about the way it is called, if anything."""


Prepare = Callable[[Benchmark, Workshop], Prepared]
"""Makes inputs on the workshop's device; called anew for each benchmark."""
