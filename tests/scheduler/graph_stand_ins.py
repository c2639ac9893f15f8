"""Stand-ins for graphs where there is no GPU, and the real ones watched where there is one.

A stand-in does what a graph does: the launches again, with what lies at the addresses of the first
time.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch

from torchzk.groth16.r1cs import Assignment
from torchzk.scheduler import witness_graph
from torchzk.scheduler.session import Session
from torchzk.scheduler.witness_graph import tensors_of

CUDA = torch.cuda.is_available()


class Replayed:
    """Stands in for `Captured`: a replay runs the same program on the same inputs."""

    made: list[weakref.ref[Replayed]] = []
    fault: Exception | None = None

    def __init__(
        self, launch: Callable[[], Assignment], device: torch.device, n_bytes: int
    ) -> None:
        if self.fault is not None:
            raise self.fault
        self._launch, self.values, self.replays = launch, launch(), 0
        for x in tensors_of(self.values):
            # a capture computes nothing
            x.fill_(-1)
        self.made.append(weakref.ref(self))

    def replay(self) -> None:
        self.replays += 1
        for x, new in zip(tensors_of(self.values), tensors_of(self._launch()), strict=True):
            x.copy_(new)

    def wait(self) -> None:
        """What was launched is done."""


class Watched(witness_graph.Captured):
    """The real one, counted likewise."""

    made: list[weakref.ref[Watched]] = []

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.replays = 0
        self.made.append(weakref.ref(self))

    def replay(self) -> None:
        self.replays += 1
        super().replay()


def watched(monkeypatch: pytest.MonkeyPatch) -> type[Replayed] | type[Watched]:
    """Whoever asks for a graph has one; all of them are seen."""
    stand_in = Watched if CUDA else Replayed
    monkeypatch.setattr(stand_in, "made", [])
    monkeypatch.setattr(witness_graph, "Captured", stand_in)
    if not CUDA:
        asked = property(lambda self: self.config.witness_graph)
        monkeypatch.setattr(Session, "has_graph", asked)
    return stand_in


def broken(fault: Exception) -> type[Replayed]:
    """What cannot be captured."""
    return type("Broken", (Replayed,), {"fault": fault})
