"""What is known of jobs and of partitions proven so far, in an SQLite database that is never lost.

Write-ahead log with a sync at every commit: what was written is there after a crash of the machine.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from torchzk.errors import NotFoundError, ProtocolError, ResourceError, StoreError, one_line
from torchzk.serving.engine import JobSeconds, JobState, Priority, ProofKind
from torchzk.serving.job_schema import WHAT_TO_DO, bring_up_to_date

_SECONDS = tuple(f.name for f in fields(JobSeconds))
_LOCKED = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
_BROKEN = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}


@dataclass(frozen=True, kw_only=True)
class JobRow:
    """A job as it is kept. Its state is `QUEUED` until it has ended."""

    number: int
    """Counts jobs in the order in which they were accepted."""
    job_id: str
    request_id: str
    digest: bytes
    kind: ProofKind
    sector_size: int
    priority: Priority
    payload_bytes: int
    accepted_at: float
    """Unix time, as the others here."""
    deadline: float | None
    state: JobState = JobState.QUEUED
    cancelled: bool = False
    """Somebody asked for its end."""
    attempts: int = 0
    """Proofs that were made of it and did not hold."""
    begun: int = 0
    """Processes that had it in work, and did not stop in order."""
    ended_at: float | None = None
    error_type: str = ""
    error_message: str = ""
    seconds: JobSeconds = JobSeconds()


@dataclass(frozen=True, kw_only=True)
class JobEnd:
    """What a job ended with."""

    job_id: str
    state: JobState
    ended_at: float
    seconds: JobSeconds
    proof: bytes = b""
    error_type: str = ""
    error_message: str = ""


class JobTable:
    """One connection, shared by any number of threads, one of them at a time.

    Every method raises `StoreError` if the database is damaged or stays locked, and
    `ResourceError` if the disk is full; what was begun is undone then.
    """

    def __init__(self, path: Path, patience: float = 5.0) -> None:
        """Args: patience: Seconds to wait for another process that has locked the database."""
        self._path = path
        self._guard = threading.Lock()
        with self._translated():
            self._sql = sqlite3.connect(
                path, timeout=patience, isolation_level=None, check_same_thread=False
            )
        try:
            with self._translated():
                self._open()
        except BaseException:
            self._sql.close()
            raise

    def close(self) -> None:
        """Nothing else may be called afterwards."""
        with self._guard:
            self._sql.close()

    def probe(self) -> None:
        """See whether it can be read and written now."""
        with self._writing() as sql:
            sql.execute("SELECT max(number) FROM jobs").fetchone()

    def insert(self, row: JobRow, payload: bytes | None) -> None:
        """Accept a job, with its payload unless that is kept elsewhere.

        Args:
            row: Its `number` is not looked at.
            payload: Stays until all jobs of its digest have ended.
        """
        with self._writing() as sql:
            if payload is not None:
                sql.execute("INSERT OR IGNORE INTO payloads VALUES (?, ?)", (row.digest, payload))
            sql.execute(
                "INSERT INTO jobs (job_id, request_id, digest, kind, sector_size, priority,"
                " payload_bytes, accepted_at, deadline, state)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    row.job_id,
                    row.request_id,
                    row.digest,
                    row.kind.value,
                    row.sector_size,
                    int(row.priority),
                    row.payload_bytes,
                    row.accepted_at,
                    row.deadline,
                    JobState.QUEUED.value,
                ),
            )

    def find(self, job_id: str) -> JobRow | None:
        """The job of that id."""
        return next(iter(self._select("job_id = ?", job_id)), None)

    def same(self, request_id: str, digest: bytes) -> JobRow | None:
        """The newest job of a request and a payload that waits, runs or has a proof.

        None that somebody has cancelled.
        """
        where = "request_id = ? AND digest = ? AND state IN (?, ?) AND NOT cancelled"
        states = (JobState.QUEUED.value, JobState.COMPLETED.value)
        found = self._select(where, request_id, digest, *states)
        return found[-1] if found else None

    def unfinished(self) -> list[JobRow]:
        """Jobs that have not ended, in the order in which they were accepted."""
        return self._select("state = ?", JobState.QUEUED.value)

    def ended(self, most: int) -> list[JobRow]:
        """The last jobs that have ended, in the order in which they were accepted."""
        inner = "SELECT number FROM jobs WHERE ended_at IS NOT NULL ORDER BY ended_at DESC LIMIT ?"
        return self._select(f"number IN ({inner})", most)

    def wants(self, digest: bytes) -> bool:
        """Whether a job that has not ended has that payload."""
        with self._reading() as sql:
            query = "SELECT 1 FROM jobs WHERE state = ? AND digest = ? LIMIT 1"
            return sql.execute(query, (JobState.QUEUED.value, digest)).fetchone() is not None

    def payload(self, digest: bytes) -> bytes | None:
        """A payload that `insert` was given and somebody still waits for."""
        with self._reading() as sql:
            query = "SELECT payload FROM payloads WHERE digest = ?"
            row = sql.execute(query, (digest,)).fetchone()
            return bytes(row[0]) if row else None

    def proof(self, job_id: str) -> bytes:
        """The proof of a completed job, empty for others."""
        with self._reading() as sql:
            row = sql.execute("SELECT proof FROM jobs WHERE job_id = ?", (job_id,)).fetchone()
            return bytes(row[0]) if row else b""

    def pieces(self, number: int) -> dict[int, bytes]:
        """Partitions of a job that are proven, by index."""
        with self._reading() as sql:
            query = "SELECT partition, piece FROM pieces WHERE job = ?"
            return {int(k): bytes(piece) for k, piece in sql.execute(query, (number,))}

    def put_piece(self, number: int, partition: int, piece: bytes) -> None:
        """A partition is proven. The first piece stays.

        A power cut in the next seconds may lose it, as it may lose `begin`; nothing else does.
        """
        with self._writing(at_once=False) as sql:
            sql.execute(
                "INSERT OR IGNORE INTO pieces SELECT number, ?, ? FROM jobs"
                " WHERE number = ? AND state = ?",
                (partition, piece, number, JobState.QUEUED.value),
            )

    def begin(self, number: int) -> None:
        """A device has a job in work: if the process dies now, it may be the job's doing."""
        with self._writing(at_once=False) as sql:
            sql.execute("UPDATE jobs SET begun = begun + 1 WHERE number = ?", (number,))

    def rest(self) -> None:
        """The process stops in order: no job is to blame for it."""
        with self._writing() as sql:
            sql.execute(
                "UPDATE jobs SET begun = 0 WHERE state = ? AND begun > 0", (JobState.QUEUED.value,)
            )

    def cancel(self, job_id: str) -> None:
        """Somebody asks for a job's end: it is not begun again."""
        with self._writing() as sql:
            sql.execute("UPDATE jobs SET cancelled = 1 WHERE job_id = ?", (job_id,))

    def try_again(self, number: int) -> None:
        """The proof did not hold: count it, and forget the pieces it was made of."""
        with self._writing() as sql:
            sql.execute("UPDATE jobs SET attempts = attempts + 1 WHERE number = ?", (number,))
            sql.execute("DELETE FROM pieces WHERE job = ?", (number,))

    def end(self, *ends: JobEnd) -> None:
        """Jobs end, all of them or none.

        Raises:
            ProtocolError: One has ended already.
        """
        with self._writing() as sql:
            for end in ends:
                self._end(sql, end)

    def totals(self) -> Mapping[tuple[ProofKind, JobState], int]:
        """How many jobs have ever ended, by kind and state; those long forgotten included."""
        with self._reading() as sql:
            rows = sql.execute("SELECT kind, state, jobs FROM totals").fetchall()
            return {(ProofKind(kind), JobState(state)): n for kind, state, n in rows}

    def forget(self, before: float) -> int:
        """Drop jobs that ended before that moment; returns how many."""
        with self._writing() as sql:
            return sql.execute("DELETE FROM jobs WHERE ended_at < ?", (before,)).rowcount

    def _open(self) -> None:
        self._sql.execute("PRAGMA journal_mode = WAL")
        self._sql.execute("PRAGMA synchronous = FULL")
        self._sql.execute("PRAGMA foreign_keys = ON")
        (found,) = self._sql.execute("PRAGMA quick_check(1)").fetchone()
        if found != "ok":
            raise self._damaged(found)
        fault = bring_up_to_date(self._sql)
        if fault:
            raise StoreError(f"{self._path}: {fault}")

    def _end(self, sql: sqlite3.Connection, end: JobEnd) -> None:
        row = sql.execute(
            "SELECT number, kind, state FROM jobs WHERE job_id = ?", (end.job_id,)
        ).fetchone()
        if row is None:
            raise NotFoundError(f"job {end.job_id!r} ends, but was never accepted")
        number, kind, state = row
        if state != JobState.QUEUED.value:
            raise ProtocolError(f"job {end.job_id!r} ends twice: it is {state}")
        times = ", ".join(f"{name} = ?" for name in _SECONDS)
        sql.execute(
            "UPDATE jobs SET state = ?, ended_at = ?, proof = ?, error_type = ?,"
            f" error_message = ?, {times} WHERE number = ?",
            (
                end.state.value,
                end.ended_at,
                end.proof,
                end.error_type,
                end.error_message,
                *(getattr(end.seconds, name) for name in _SECONDS),
                number,
            ),
        )
        sql.execute("DELETE FROM pieces WHERE job = ?", (number,))
        sql.execute(
            "DELETE FROM payloads WHERE digest = (SELECT digest FROM jobs WHERE number = ?)"
            " AND NOT EXISTS"
            " (SELECT 1 FROM jobs WHERE state = ? AND jobs.digest = payloads.digest)",
            (number, JobState.QUEUED.value),
        )
        sql.execute(
            "INSERT INTO totals VALUES (?, ?, 1)"
            " ON CONFLICT (kind, state) DO UPDATE SET jobs = jobs + 1",
            (kind, end.state.value),
        )

    def _select(self, where: str, *values: object) -> list[JobRow]:
        names = [f.name for f in fields(JobRow) if f.name != "seconds"]
        query = f"SELECT {', '.join([*names, *_SECONDS])} FROM jobs WHERE {where} ORDER BY number"
        with self._reading() as sql:
            rows = sql.execute(query, values).fetchall()
            return [_job_row(dict(zip([*names, *_SECONDS], row, strict=True))) for row in rows]

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        with self._guard, self._translated():
            try:
                yield self._sql
            except (ValueError, OverflowError) as e:
                # a word or a number that is none of ours
                raise self._damaged(e) from e

    @contextmanager
    def _writing(self, *, at_once: bool = True) -> Iterator[sqlite3.Connection]:
        """A transaction; `at_once`: on the disk at its end, with all that was written before it."""
        with self._guard, self._translated():
            self._sql.execute(f"PRAGMA synchronous = {'FULL' if at_once else 'NORMAL'}")
            self._sql.execute("BEGIN IMMEDIATE")
            try:
                yield self._sql
                self._sql.execute("COMMIT")
            except BaseException:
                # some faults have undone it already
                if self._sql.in_transaction:
                    self._sql.execute("ROLLBACK")
                raise

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as e:
            code = getattr(e, "sqlite_errorcode", 0) & 0xFF
            if code == sqlite3.SQLITE_FULL:
                raise ResourceError(f"{self._path}: the disk is full") from e
            if code in _LOCKED:
                raise StoreError(f"{self._path}: another process has it locked") from e
            if code in _BROKEN:
                raise self._damaged(e) from e
            raise StoreError(f"{self._path}: cannot be used: {one_line(e)}") from e
        except UnicodeDecodeError as e:
            raise self._damaged(e) from e
        except MemoryError as e:
            # what SQLite says of sizes that a damaged file makes up, too
            raise StoreError(
                f"{self._path}: SQLite has not the memory that it asks for, or it is damaged; "
                f"{WHAT_TO_DO}"
            ) from e

    def _damaged(self, why: object) -> StoreError:
        return StoreError(f"{self._path}: is damaged: {one_line(why)}; {WHAT_TO_DO}")


def _job_row(given: dict[str, Any]) -> JobRow:
    if len(given["digest"]) != 32:
        raise ValueError(f"job {given['number']} has a digest of {len(given['digest'])} bytes")
    seconds = {name: given.pop(name) for name in _SECONDS}
    given["kind"] = ProofKind(given["kind"])
    given["priority"] = Priority(given["priority"])
    given["state"] = JobState(given["state"])
    given["cancelled"] = bool(given["cancelled"])
    return JobRow(**given, seconds=JobSeconds(**seconds))
