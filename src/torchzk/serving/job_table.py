"""What is known of jobs and of partitions proven so far, in an SQLite database that is never lost.

Write-ahead log with a sync at every commit: what was written is there after a crash of the machine.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any

from torchzk.errors import NotFoundError, ProtocolError, ResourceError, StoreError, one_line
from torchzk.serving.engine import JobSeconds, JobState, Priority, ProofKind

_VERSION = 1
_SCHEMA = """
CREATE TABLE jobs (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    job_id TEXT NOT NULL UNIQUE,
    request_id TEXT NOT NULL,
    digest BLOB NOT NULL,
    kind TEXT NOT NULL,
    sector_size INTEGER NOT NULL,
    priority INTEGER NOT NULL,
    payload_bytes INTEGER NOT NULL,
    accepted_at REAL NOT NULL,
    deadline REAL,
    state TEXT NOT NULL,
    cancelled INTEGER NOT NULL DEFAULT 0,
    attempts INTEGER NOT NULL DEFAULT 0,
    begun INTEGER NOT NULL DEFAULT 0,
    ended_at REAL,
    proof BLOB NOT NULL DEFAULT x'',
    error_type TEXT NOT NULL DEFAULT '',
    error_message TEXT NOT NULL DEFAULT '',
    queue_wait REAL NOT NULL DEFAULT 0,
    key_load REAL NOT NULL DEFAULT 0,
    synthesis REAL NOT NULL DEFAULT 0,
    device REAL NOT NULL DEFAULT 0,
    total REAL NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX jobs_by_request ON jobs (request_id, digest);
CREATE INDEX jobs_by_state ON jobs (state, digest);
CREATE INDEX jobs_by_end ON jobs (ended_at);
CREATE TABLE pieces (
    job INTEGER NOT NULL REFERENCES jobs (number) ON DELETE CASCADE,
    partition INTEGER NOT NULL,
    piece BLOB NOT NULL,
    PRIMARY KEY (job, partition)
) STRICT, WITHOUT ROWID;
CREATE TABLE totals (
    kind TEXT NOT NULL,
    state TEXT NOT NULL,
    jobs INTEGER NOT NULL,
    PRIMARY KEY (kind, state)
) STRICT, WITHOUT ROWID;
"""
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

    def insert(self, row: JobRow) -> None:
        """Accept a job; its `number` is not looked at."""
        with self._writing() as sql:
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
        (version,) = self._sql.execute("PRAGMA user_version").fetchone()
        if version not in (0, _VERSION):
            raise StoreError(
                f"{self._path}: is of version {version}, this torchzk reads version {_VERSION}; "
                "run the torchzk that wrote it, or name another data folder"
            )
        if version == 0:
            script = f"BEGIN IMMEDIATE; {_SCHEMA} PRAGMA user_version = {_VERSION}; COMMIT;"
            self._sql.executescript(script)
        # more than ours is who looks after it: an index, the statistics of ANALYZE
        if not _our_schema() <= _schema_of(self._sql):
            raise StoreError(f"{self._path}: has other tables than a service's; {_WHAT_TO_DO}")

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
                f"{_WHAT_TO_DO}"
            ) from e

    def _damaged(self, why: object) -> StoreError:
        return StoreError(f"{self._path}: is damaged: {one_line(why)}; {_WHAT_TO_DO}")


_WHAT_TO_DO = "stop the service, and move the file away or put a backup in its place"


def _schema_of(sql: sqlite3.Connection) -> set[tuple[str, str]]:
    query = "SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL"
    return set(sql.execute(query))


@cache
def _our_schema() -> set[tuple[str, str]]:
    with closing(sqlite3.connect(":memory:")) as sql:
        sql.executescript(_SCHEMA)
        return _schema_of(sql)


def _job_row(given: dict[str, Any]) -> JobRow:
    if len(given["digest"]) != 32:
        raise ValueError(f"job {given['number']} has a digest of {len(given['digest'])} bytes")
    seconds = {name: given.pop(name) for name in _SECONDS}
    given["kind"] = ProofKind(given["kind"])
    given["priority"] = Priority(given["priority"])
    given["state"] = JobState(given["state"])
    given["cancelled"] = bool(given["cancelled"])
    return JobRow(**given, seconds=JobSeconds(**seconds))
