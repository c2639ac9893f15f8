"""How one job is asked to stop: cancelled by somebody, or past its deadline."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from torchzk.errors import CancelledError, ExpiredError


class Stop:
    """A job's cancel flag and deadline, looked at between steps and between kernels."""

    def __init__(
        self, deadline: float | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Args: deadline: A moment of `clock`, in seconds; None for as long as it takes."""
        self.deadline = deadline
        self._clock = clock
        self._reason: str | None = None
        self._wakes: dict[object, Callable[[], None]] = {}
        self._guard = threading.Lock()

    def cancel(self, reason: str) -> None:
        """Ask the job to stop, and wake whoever waits on its behalf. The first reason stays."""
        with self._guard:
            if self._reason is not None:
                return
            self._reason = reason
            wakes = list(self._wakes.values())
        # without the guard: whoever wakes takes locks of its own
        for wake in wakes:
            wake()

    def seconds_left(self) -> float | None:
        """Until the deadline, negative after it; None without one."""
        return None if self.deadline is None else self.deadline - self._clock()

    def reason(self) -> CancelledError | ExpiredError | None:
        """Why the job must stop, or None while it need not."""
        if self._reason is not None:
            return CancelledError(self._reason)
        left = self.seconds_left()
        if left is not None and left <= 0:
            return ExpiredError(f"the job's deadline passed {-left:.1f} s ago")
        return None

    def check(self) -> None:
        """Raise `CancelledError` or `ExpiredError` once the job must stop."""
        reason = self.reason()
        if reason is not None:
            raise reason

    def watch(self, wake: Callable[[], None]) -> Callable[[], None]:
        """Call `wake` when the job is cancelled, not when its deadline passes.

        Whoever waits looks at the job after this call, and again when woken.

        Returns:
            What ends the watch.
        """
        key = object()
        with self._guard:
            self._wakes[key] = wake

        def unwatch() -> None:
            with self._guard:
                self._wakes.pop(key, None)

        return unwatch
