"""What the scheduler runs: jobs of partitions, partitions of steps. Knows no prover."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from enum import Enum, IntEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol

from torchzk.errors import CancelledError, ExpiredError, ProtocolError, TorchzkError
from torchzk.scheduler.stop import Stop
from torchzk.timeline import Timeline

if TYPE_CHECKING:
    from torchzk.scheduler.worker_device import Device


class Step(Enum):
    """The steps of a partition, in order."""

    PREPARE = "prepare"
    """Host work: needs neither memory of the device nor its kernels."""
    ADMIT = "admit"
    """The scheduler's own: the planned bytes are promised, the device is trimmed if need be."""
    STAGE = "stage"
    """Memory is taken, uploads are started, events recorded; nothing is waited for."""
    COMPUTE = "compute"
    """The stream waits for the events; kernels; each buffer is let go of at its last use."""
    FINISH = "finish"
    """Host work: final sums, encoding."""


class PartitionWork(Protocol):
    """One partition of a job on one device. A worker's thread calls every step, in order, once."""

    @property
    def planned_bytes(self) -> int:
        """The most of the device's memory it takes at once; what the plan says."""
        ...

    def prepare(self) -> None: ...
    def stage(self) -> None: ...
    def compute(self, check: Callable[[], None]) -> None:
        """Run the kernels, and return when they are done: wait for an event of their stream.

        Args:
            check: Raises when the job must stop; to be called between kernels.
        """
        ...

    def drop(self) -> None:
        """Let go of everything on the device.

        Called once, after `compute` or after the step that failed; then the bytes are others'.
        """
        ...

    def finish(self) -> bytes:
        """The partition's proof. Called after `drop`."""
        ...


class JobWork(Protocol):
    """One job. Its steps are called by different threads, one after the other."""

    def read(self) -> None: ...
    def check(self) -> None: ...
    @property
    def n_partitions(self) -> int:
        """At least one. Asked for after `check`."""
        ...

    def partition(self, index: int, device: Device, timeline: Timeline) -> PartitionWork:
        """A partition to be proved on `device`, anew when a device failed; called by many threads.

        Args:
            timeline: Of the worker's lane, where the partition's own spans go.
        """
        ...

    def finish(self, pieces: Sequence[bytes]) -> bytes:
        """Proof bytes from those of all partitions in order, verified.

        Raises:
            ProofError: They do not verify.
        """
        ...


class Priority(IntEnum):
    """Classes of jobs: who is in more of a hurry comes first."""

    WINNING = 0
    WINDOW = 1
    REST = 2


class JobState(Enum):
    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"
    EXPIRED = "expired"


class Job:
    """A job that was submitted, as its owner sees it. Ends exactly once."""

    def __init__(
        self,
        name: str,
        work: JobWork,
        priority: Priority = Priority.REST,
        stop: Stop | None = None,
        submitted: float | None = None,
        proven: Mapping[int, bytes] = MappingProxyType({}),
        on_end: Callable[[Job], None] | None = None,
    ) -> None:
        self.name, self.priority, self.stop = name, priority, stop or Stop()
        self.proven = proven
        """Pieces of partitions that were proved before, by index."""
        self.submitted = time.monotonic() if submitted is None else submitted
        """A moment of the service's clock, in seconds."""
        self.n_partitions = 0
        """Known after the check."""
        self._work: JobWork | None = work
        self._state = JobState.QUEUED
        self._result: bytes | None = None
        self._error: BaseException | None = None
        self._over = threading.Event()
        self._on_end = on_end
        self._guard = threading.Lock()

    @property
    def state(self) -> JobState:
        return self._state

    @property
    def ended(self) -> bool:
        return self._over.is_set()

    @property
    def error(self) -> BaseException | None:
        """Why it ended without a result."""
        return self._error

    @property
    def work(self) -> JobWork:
        """For those who work on it. Its input is let go of when the job ends."""
        if self._work is None:
            raise ProtocolError(f"{self.name} is {self._state.value}: there is no work left in it")
        return self._work

    def cancel(self) -> None:
        """Ask it to stop. It ends as cancelled, unless it ends in another way before."""
        self.stop.cancel(f"{self.name} was cancelled")

    def wait(self, timeout: float | None = None) -> JobState:
        """Wait for its end, `timeout` seconds at most; returns the state it is in then."""
        self._over.wait(timeout)
        return self._state

    def result(self, timeout: float | None = None) -> bytes:
        """The proof bytes, when the job is done.

        Raises:
            TorchzkError: What the job ended with, or it has not ended after `timeout` seconds.
        """
        if not self._over.wait(timeout):
            raise TorchzkError(f"{self.name} is still {self._state.value} after {timeout} s")
        if self._error is not None:
            raise self._error
        assert self._result is not None
        return self._result

    def begin(self) -> None:
        """The service's: somebody works on it now."""
        with self._guard:
            if self._state is not JobState.QUEUED:
                raise ProtocolError(f"{self.name} begins, but is {self._state.value}")
            self._state = JobState.RUNNING

    def end(self, result: bytes | None = None, error: BaseException | None = None) -> None:
        """The service's: end it, with a result or with an error.

        Raises:
            ProtocolError: It has ended already.
        """
        with self._guard:
            if self.ended:
                raise ProtocolError(f"{self.name} ends twice: it is {self._state.value}")
            if (result is None) == (error is None):
                raise ProtocolError(f"{self.name} ends with a result or an error, never both")
            self._result, self._error, self._work = result, error, None
            self._state = state_after(error)
            self._over.set()
            on_end, self._on_end = self._on_end, None
        if on_end is not None:
            on_end(self)


def state_after(error: BaseException | None) -> JobState:
    """How a job has ended that has this error, or none."""
    if error is None:
        return JobState.DONE
    if isinstance(error, CancelledError):
        return JobState.CANCELLED
    return JobState.EXPIRED if isinstance(error, ExpiredError) else JobState.FAILED
