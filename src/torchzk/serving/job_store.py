"""Jobs that were accepted, on disk until some time after their end: `jobs.sqlite` and `payloads/`.

A job is accepted once its payload and its row are synced to the disk: both at once where the
payload is small, otherwise in this order. Whatever happens to the process afterwards, the next one
finds the job, and the partitions proven so far.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from types import TracebackType

from torchzk.errors import ConfigError, ResourceError, StoreError
from torchzk.files import atomic_write, make_folder
from torchzk.scheduler import machine
from torchzk.serving import payload
from torchzk.serving.engine import JobState, ProofKind, ProofRequest
from torchzk.serving.job_table import JobEnd, JobRow, JobTable
from torchzk.serving.payload_files import PayloadFiles

_LEAST_FREE = 256 << 20
"""Bytes on the disk: a request of the largest size, and what is written of a job afterwards."""
_SMALL = 256 << 10
"""Bytes of a request's proofs that lie in the database, for one wait for the disk less than those
that are files: a winning PoSt must not be late."""


class JobStore:
    """The jobs in a folder, which is this process's as long as the store is open.

    For any number of threads. Every method may raise `StoreError` and `ResourceError` as `JobTable`
    does; the store can be used on, and what was accepted before is still there.
    """

    def __init__(
        self,
        folder: Path,
        *,
        keep_seconds: float = 7 * 86400.0,
        patience: float = 5.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Open the folder's jobs, or make it.

        Args:
            folder: Nobody but the owner may read it: payloads hold what is to stay secret.
            keep_seconds: How long a job is known after its end.
            patience: Seconds to wait for a process that has locked the database.
            clock: Unix time in seconds.

        Raises:
            ConfigError: The folder cannot be made.
            StoreError: It is another service's, damaged, or of another version.
        """
        self.folder, self._keep, self._clock = folder, keep_seconds, clock
        make_folder(folder)
        folder.chmod(0o700)
        self._lock = _lock(folder)
        try:
            self._table = JobTable(folder / "jobs.sqlite", patience)
            try:
                self._payloads = PayloadFiles(folder / "payloads", self._table.wants)
            except BaseException:
                self._table.close()
                raise
        except BaseException:
            os.close(self._lock)
            raise

    def __enter__(self) -> JobStore:
        return self

    def __exit__(
        self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the folder; nothing but this may be called afterwards."""
        self._table.close()
        handle, self._lock = self._lock, -1
        if handle >= 0:
            os.close(handle)

    def probe(self) -> None:
        """See whether jobs can be accepted: raises what the next one would be refused with."""
        free = machine.disk_free(self.folder)
        if free < _LEAST_FREE:
            raise ResourceError(
                f"{self.folder}: {free:,} bytes are free on its disk, {_LEAST_FREE:,} are wanted"
            )
        self._table.probe()

    def same(self, request_id: str, digest: bytes) -> JobRow | None:
        """The job that this request is the same as; never one that failed or was stopped."""
        return self._table.same(request_id, digest) if request_id else None

    def accept(self, request: ProofRequest, digest: bytes) -> tuple[JobRow, bool]:
        """Keep a request. Calls must not overlap where the same request could come twice.

        Args:
            digest: The request's.

        Returns:
            Its job, and whether that was there already.
        """
        there = self.same(request.request_id, digest)
        if there is not None:
            return there, True
        with self.write_payload(request, digest):
            now = self._clock()
            job_id = self._free_id(request.request_id)
            row = JobRow(
                number=0,
                job_id=job_id,
                request_id=request.request_id,
                digest=digest,
                kind=request.kind,
                sector_size=request.sector_size,
                priority=request.priority,
                payload_bytes=_n_bytes(request),
                accepted_at=now,
                deadline=None if request.seconds is None else now + request.seconds,
            )
            small = b"".join(payload.encode(request)) if _is_small(request) else None
            self._table.insert(row, small)
        found = self._table.find(job_id)
        assert found is not None
        return found, False

    def write_payload(self, request: ProofRequest, digest: bytes) -> AbstractContextManager[None]:
        """Write a payload that is large ahead of `accept`, which then takes one commit.

        It stays as long as the context lasts, and as a job has it.
        """
        if _is_small(request):
            return nullcontext()
        return self._payloads.kept(digest, payload.encode(request))

    def request(self, row: JobRow) -> ProofRequest:
        """What a job that has not ended is to prove; raises `StoreError` if it is damaged."""
        small = self._table.payload(row.digest)
        raw = self._payloads.read(row.digest) if small is None else small
        return payload.decode(raw, row.digest)

    def save_payload(self, row: JobRow, path: Path) -> None:
        """Have a job's payload under a name in the store's folder as well, for good.

        Raises:
            OSError: It cannot be had.
        """
        small = self._table.payload(row.digest)
        if small is None:
            self._payloads.save(row.digest, path)
        else:
            with atomic_write(path) as file:
                file.write(small)

    def find(self, job_id: str) -> JobRow | None:
        """The job of that id, None if it was never there or has been forgotten."""
        return self._table.find(job_id)

    def unfinished(self) -> list[JobRow]:
        """Jobs that have not ended, in the order in which they were accepted."""
        return self._table.unfinished()

    def ended(self, most: int) -> list[JobRow]:
        """The last jobs that have ended, in the order in which they were accepted."""
        return self._table.ended(most)

    def proof(self, job_id: str) -> bytes:
        """The proof of a completed job, empty for others."""
        return self._table.proof(job_id)

    def pieces(self, row: JobRow) -> dict[int, bytes]:
        """Partitions of a job that are proven, by index."""
        return self._table.pieces(row.number)

    def put_piece(self, row: JobRow, partition: int, piece: bytes) -> None:
        """A partition is proven."""
        self._table.put_piece(row.number, partition, piece)

    def begin(self, row: JobRow) -> None:
        """A device has a job in work, for the first time in this process."""
        self._table.begin(row.number)

    def rest(self) -> None:
        """This process stops in order, so that no job is to blame for it."""
        self._table.rest()

    def cancel(self, row: JobRow) -> None:
        """Somebody asks for a job's end: it is not begun again."""
        self._table.cancel(row.job_id)

    def try_again(self, row: JobRow) -> None:
        """The proof of a job did not hold: all its partitions are to be proved once more."""
        self._table.try_again(row.number)

    def end(self, *ends: tuple[JobRow, JobEnd]) -> None:
        """Jobs end, all of them or none; raises `ProtocolError` if one has ended already."""
        self._table.end(*(end for _, end in ends))
        for row, _ in ends:
            self._payloads.tidy(row.digest)

    def totals(self) -> Mapping[tuple[ProofKind, JobState], int]:
        """How many jobs have ever ended, by kind and state."""
        return self._table.totals()

    def forget_old(self) -> int:
        """Drop the jobs whose time is over; returns how many."""
        return self._table.forget(self._clock() - self._keep)

    def _free_id(self, request_id: str) -> str:
        if request_id and self._table.find(request_id) is None:
            return request_id
        while True:
            other = f"{request_id or 'job'}-{secrets.token_hex(8)}"
            if self._table.find(other) is None:
                return other


def _n_bytes(request: ProofRequest) -> int:
    return sum(map(len, request.vanilla_proofs))


def _is_small(request: ProofRequest) -> bool:
    """Whether its payload lies in the database: by its proofs, and by how many there are."""
    return _n_bytes(request) + len(request.vanilla_proofs) <= _SMALL


def _lock(folder: Path) -> int:
    """Have the folder for this process: the system lets go of it however the process ends."""
    try:
        handle = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as e:
        raise ConfigError(f"{folder}: cannot be written: {e.strerror}") from e
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as e:
        os.close(handle)
        raise StoreError(f"{folder}: another service has it; name another data folder") from e
    return handle
