"""Bytes of a device promised to partitions, never more than it has. Counts, and allocates nothing.

A promise is had at the head of the mem lock's queue and given back after the kernels. Who has one
waits for the compute lock alone, whose holder waits for nobody: so waiting for bytes ends. Should
there be less by then than was asked for, it is had once nobody else has any: what one partition
takes at its kernels is counted apart, and what it was staged with in that as well.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from torchzk.errors import ProtocolError, ResourceError


class MemoryBudget:
    """What the plans of a device's partitions may take together."""

    def __init__(
        self, name: str, total: int, on_change: Callable[[int], None] | None = None
    ) -> None:
        """Args:
        name: The device's.
        total: Bytes; what stays there anyway, such as a key, is taken off by the caller.
        on_change: Told of the bytes promised whenever they change, in order; must not wait.
        """
        self.name, self.total = name, total
        self._listeners = [on_change] if on_change is not None else []
        self._held: dict[Promise, int] = {}
        self._guard = threading.RLock()
        self._wakes: list[Callable[[], None]] = []
        self._peak = self._trims = 0

    def resize(self, total: int) -> None:
        """Have another total, as where a key came or went; what is promised stays so."""
        with self._guard:
            self.total = total
        self._wake()

    @property
    def held(self) -> int:
        """Bytes promised now."""
        with self._guard:
            return sum(self._held.values())

    @property
    def peak(self) -> int:
        """The most that was ever promised at once."""
        return self._peak

    @property
    def trims(self) -> int:
        """How often the device was trimmed to keep a promise."""
        return self._trims

    def count_trim(self) -> None:
        """Count a trim. For the holder of the mem lock."""
        self._trims += 1

    def watch(self, wake: Callable[[], None]) -> None:
        """Call `wake` whenever bytes are given back."""
        self._wakes.append(wake)

    def report(self, on_change: Callable[[int], None]) -> None:
        """Tell somebody else as well of the bytes promised; `on_change` as in the constructor."""
        self._listeners.append(on_change)

    def ask(self, who: str, n_bytes: int) -> Promise:
        """Ask for bytes. They are had once `Promise.ready` was true.

        Raises:
            ProtocolError: A negative number.
            ResourceError: More than there are in all, so that waiting would never end.
        """
        if n_bytes < 0:
            raise ProtocolError(f"{who} plans {n_bytes} bytes on {self.name}")
        if n_bytes > self.total:
            raise ResourceError(
                f"{who}: a partition takes {n_bytes / 2**30:.2f} GiB on {self.name}, "
                f"{self.total / 2**30:.2f} GiB are there for partitions; plan with less"
            )
        return Promise(self, who, n_bytes)

    def _try_hold(self, promise: Promise) -> bool:
        with self._guard:
            if promise in self._held:
                raise ProtocolError(f"{promise.who} asks twice for the same bytes on {self.name}")
            held = sum(self._held.values()) + promise.n_bytes
            if held > self.total and self._held:
                return False
            self._held[promise] = promise.n_bytes
            self._peak = max(self._peak, held)
            self._tell(held)
        return True

    def _give_back(self, promise: Promise) -> None:
        with self._guard:
            if self._held.pop(promise, None) is None:
                return
            self._tell(sum(self._held.values()))
        self._wake()

    def _wake(self) -> None:
        # without the guard: whoever wakes takes locks of its own
        for wake in self._wakes:
            wake()

    def _tell(self, held: int) -> None:
        for on_change in self._listeners:
            on_change(held)

    def _holders(self) -> str:
        with self._guard:
            parts = [f"{p.who} {n / 2**30:.2f}" for p, n in self._held.items()]
        return ", ".join(parts) or "nobody"


class Promise:
    """Bytes asked for by one partition; the gate of its turn in the mem lock."""

    def __init__(self, budget: MemoryBudget, who: str, n_bytes: int) -> None:
        self._budget, self.who, self.n_bytes = budget, who, n_bytes

    def ready(self) -> bool:
        """Take the bytes if they are to be had now."""
        return self._budget._try_hold(self)

    def reason(self) -> str:
        """Why they are not."""
        total = self._budget.total / 2**30
        return (
            f"of {total:.2f} GiB on {self._budget.name} {self.n_bytes / 2**30:.2f} are asked for, "
            f"and held are, in GiB: {self._budget._holders()}"
        )

    def give_back(self) -> None:
        """Give them back; nothing where they were never had or are back already."""
        self._budget._give_back(self)
