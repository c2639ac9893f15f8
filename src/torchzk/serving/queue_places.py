"""How many jobs may be there that have not ended, and who has a place among them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import RLock

from torchzk.errors import QueueFullError
from torchzk.scheduler.work import Priority
from torchzk.serving.engine import ProofRequest
from torchzk.serving.job_table import JobRow
from torchzk.serving.live_job import CLASSES


@dataclass(frozen=True)
class QueueLimits:
    """What is taken at most of jobs that have not ended."""

    jobs: int = 1024
    """Of each class of the scheduler, so that the lowest keeps no other out."""
    payload_bytes: int = 64 << 30
    """Of all payloads together."""


class QueuePlaces:
    """Places for requests that are on their way to be jobs."""

    def __init__(
        self, limits: QueueLimits, guard: RLock, rows: Callable[[], Iterable[JobRow]]
    ) -> None:
        """Args: rows: The jobs that have not ended; called with the guard held."""
        self._limits, self._guard, self._rows = limits, guard, rows
        self._jobs: Counter[Priority] = Counter()
        self._bytes = 0

    @contextmanager
    def place(self, request: ProofRequest) -> Iterator[None]:
        """Keep a place until the context ends; by then its job is there, or has failed to be.

        Raises:
            QueueFullError: There is none.
        """
        kind = CLASSES[request.priority]
        n_bytes = sum(map(len, request.vanilla_proofs))
        with self._guard:
            self._check(kind, n_bytes)
            self._jobs[kind] += 1
            self._bytes += n_bytes
        try:
            yield
        finally:
            with self._guard:
                self._jobs[kind] -= 1
                self._bytes -= n_bytes

    def _check(self, kind: Priority, n_bytes: int) -> None:
        rows, most = list(self._rows()), self._limits
        jobs = sum(CLASSES[row.priority] is kind for row in rows) + self._jobs[kind]
        there = sum(row.payload_bytes for row in rows) + self._bytes
        if jobs >= most.jobs:
            raise QueueFullError(
                f"{jobs} jobs of class {kind.name.lower()} have not ended, {most.jobs} may be "
                "there; submit again when some are through"
            )
        if there + n_bytes > most.payload_bytes:
            raise QueueFullError(
                f"jobs that have not ended take {there:,} bytes, this one {n_bytes:,}, and "
                f"{most.payload_bytes:,} may be there; submit again when some are through"
            )
