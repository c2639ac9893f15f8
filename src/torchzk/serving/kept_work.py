"""A job of the store as the scheduler's work: timed, its partitions kept, its proof looked at.

The payload is read when the job's turn has come, so that thousands of jobs may wait.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from torchzk.errors import ProofError, ProtocolError
from torchzk.scheduler.work import JobWork, PartitionWork
from torchzk.scheduler.worker_device import Device
from torchzk.serving.engine import JobSeconds, PartitionReport
from torchzk.serving.prover import HoldsKey
from torchzk.timeline import Timeline

_AT_WORK = ("synthesizing", "synth_done", "gpu")


@dataclass
class _Part:
    """What is known of one partition."""

    state: str = "pending"
    synthesis: float | None = None
    device: float | None = None
    name: str = ""
    """Of the device that proved it."""

    def report(self, index: int) -> PartitionReport:
        return PartitionReport(
            index=index,
            state=self.state,
            synthesis_seconds=self.synthesis,
            device_seconds=self.device,
        )


@dataclass(frozen=True)
class Fault:
    """A proof that was made and does not hold."""

    error: ProofError
    pieces: tuple[bytes, ...]
    devices: tuple[str, ...]
    """Which device made each piece; empty for pieces of an earlier process."""
    work: JobWork


class KeptWork:
    """A `JobWork` around the one that does the work."""

    def __init__(
        self,
        make: Callable[[], JobWork],
        keep: Callable[[int, bytes, str], None],
        on_fault: Callable[[Fault], None],
        proven: Mapping[int, bytes],
        on_begin: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Args:
        make: Reads the payload, and makes the work of it.
        keep: Gets index, piece and device of every partition that is proven; must not raise.
        on_fault: Gets a proof that does not hold; must not raise.
        proven: Pieces from before.
        on_begin: Called once, before the first partition; must not raise.
        """
        self._make, self._keep, self._on_fault = make, keep, on_fault
        self._proven, self._on_begin, self._clock = proven, on_begin, clock
        self._inner: JobWork | None = None
        self._guard = threading.Lock()
        self._parts: list[_Part] = []
        self._begun: float | None = None
        self._host = self._device = self._key = 0.0

    @property
    def running(self) -> bool:
        """Whether a partition was begun, so that a device is or was at it."""
        return self._begun is not None

    @property
    def begun(self) -> float | None:
        """When it was first worked on, by the clock."""
        return self._begun

    @property
    def partitions(self) -> tuple[PartitionReport, ...]:
        with self._guard:
            return tuple(part.report(k) for k, part in enumerate(self._parts))

    @property
    def at_work(self) -> list[str]:
        """The devices of the partitions that are worked on now, once for each."""
        with self._guard:
            return [part.name for part in self._parts if part.state in _AT_WORK]

    def seconds(self, queue_wait: float, total: float) -> JobSeconds:
        """What it took so far."""
        with self._guard:
            return JobSeconds(
                queue_wait=queue_wait,
                key_load=self._key,
                synthesis=self._host,
                device=self._device,
                total=total,
            )

    def read(self) -> None:
        with self._on_host():
            self._inner = self._make()
            self._inner.read()
        if isinstance(self._inner, HoldsKey):
            with self._guard:
                self._key = self._inner.key_seconds
                self._host -= self._key

    def check(self) -> None:
        with self._on_host():
            self._work.check()
        with self._guard:
            self._parts = [_Part() for _ in range(self._work.n_partitions)]
            for index in self._proven.keys() & set(range(len(self._parts))):
                self._parts[index].state = "done"

    @property
    def n_partitions(self) -> int:
        return self._work.n_partitions

    def partition(self, index: int, device: Device, timeline: Timeline) -> PartitionWork:
        with self._guard:
            is_first = self._begun is None
            if is_first:
                self._begun = self._clock()
            part = self._parts[index] = _Part("synthesizing", name=device.name)
        if is_first:
            self._on_begin()
        with self._on_host():
            inner = self._work.partition(index, device, timeline)
        return _KeptPartition(self, inner, index, part)

    def finish(self, pieces: Sequence[bytes]) -> bytes:
        try:
            with self._on_host():
                return self._work.finish(pieces)
        except ProofError as error:
            with self._guard:
                devices = tuple(part.name for part in self._parts)
            self._on_fault(Fault(error, tuple(pieces), devices, self._work))
            raise

    def release(self) -> None:
        """Let go of payload and key; times are still told."""
        inner, self._inner = self._inner, None
        if isinstance(inner, HoldsKey):
            # whoever is told of the end may want to have the key evicted
            inner.give_back()

    @property
    def _work(self) -> JobWork:
        if self._inner is None:
            raise ProtocolError("a job is worked on before it was read, or after its end")
        return self._inner

    @contextmanager
    def _on_host(self) -> Iterator[None]:
        start = self._clock()
        try:
            yield
        finally:
            with self._guard:
                self._host += self._clock() - start

    def _done(self, index: int, part: _Part, piece: bytes) -> None:
        # on the disk before anybody counts on it
        self._keep(index, piece, part.name)
        part.state = "done"

    def _took(self, part: _Part, state: str, seconds: float, *, device: bool) -> None:
        with self._guard:
            part.state = state
            if device:
                part.device = (part.device or 0.0) + seconds
                self._device += seconds
            else:
                part.synthesis = (part.synthesis or 0.0) + seconds
                self._host += seconds


class _KeptPartition:
    """A `PartitionWork` around the one that does the work."""

    def __init__(self, owner: KeptWork, inner: PartitionWork, index: int, part: _Part) -> None:
        self._owner, self._inner, self._index, self._part = owner, inner, index, part

    @property
    def planned_bytes(self) -> int:
        return self._inner.planned_bytes

    def prepare(self) -> None:
        with self._timed("synthesizing", "synth_done"):
            self._inner.prepare()

    def stage(self) -> None:
        with self._timed("synth_done", "synth_done"):
            self._inner.stage()

    def compute(self, check: Callable[[], None]) -> None:
        with self._timed("gpu", "gpu", device=True):
            self._inner.compute(check)

    def drop(self) -> None:
        self._inner.drop()

    def finish(self) -> bytes:
        with self._timed("gpu", "gpu"):
            piece = self._inner.finish()
        self._owner._done(self._index, self._part, piece)
        return piece

    @contextmanager
    def _timed(self, during: str, after: str, *, device: bool = False) -> Iterator[None]:
        start = self._owner._clock()
        self._part.state, ended = during, "failed"
        try:
            yield
            ended = after
        finally:
            took = self._owner._clock() - start
            self._owner._took(self._part, ended, took, device=device)
