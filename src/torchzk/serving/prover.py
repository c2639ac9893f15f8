"""What an engine needs of whoever has circuits, keys and devices."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

from torchzk.scheduler.work import JobWork
from torchzk.serving.engine import DeviceReport, Evicted, KeyReport, Preloaded, ProofRequest


class Prover(Protocol):
    """Makes work for the scheduler. Every method may be called by any thread at any time."""

    def admit(self, request: ProofRequest) -> None:
        """See at once, without its payload, whether a request can be served here.

        Raises:
            InputError: It contradicts itself, as far as that is quick to see.
            ConfigError: Its circuit is not served.
            ResourceError: It can never fit; with the numbers.
        """
        ...

    def work(self, request: ProofRequest) -> JobWork:
        """The work of a request; called anew for every attempt. Its `finish` verifies."""
        ...

    def devices(self) -> Sequence[DeviceReport]:
        """Workers of all devices; what they work on is the engine's to say."""
        ...

    def keys(self) -> Sequence[KeyReport]:
        """Keys that are loaded."""
        ...

    def preload(self, circuit_id: str) -> Preloaded:
        """As `Engine.preload`."""
        ...

    def evict(self, circuit_id: str) -> Evicted:
        """As `Engine.evict`."""
        ...


@runtime_checkable
class HoldsKey(Protocol):
    """A work that gets its key when it is read."""

    @property
    def key_seconds(self) -> float:
        """How long that took."""
        ...

    def give_back(self) -> None:
        """Nobody works on it any more; called at its end, and maybe twice."""
        ...


@runtime_checkable
class NamesFaults(Protocol):
    """A work that can tell more of a proof of its that does not hold."""

    def faulty(self, pieces: Sequence[bytes]) -> Sequence[int]:
        """Which partitions' pieces do not hold by themselves."""
        ...

    def explain(self, partitions: Sequence[int], folder: Path) -> None:
        """Write files that name the stage of partitions, such as digests beside a reference's."""
        ...
