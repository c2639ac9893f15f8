"""The tables of a service's database, version by version, and an older one brought up to date."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from functools import cache

_JOBS = """
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
_PAYLOADS = """
CREATE TABLE payloads (
    digest BLOB PRIMARY KEY,
    payload BLOB NOT NULL
) STRICT;
"""
SCHEMA = (_JOBS, _PAYLOADS)
"""What each version adds to the one before it; the first is 1."""
WHAT_TO_DO = "stop the service, and move the file away or put a backup in its place"


def bring_up_to_date(sql: sqlite3.Connection) -> str:
    """Add what a database of an older version, or an empty one, lacks.

    Returns:
        Why it is none of a service's, and is left alone; empty as a rule.

    Raises:
        sqlite3.Error: As what it is asked.
    """
    (version,) = sql.execute("PRAGMA user_version").fetchone()
    newest = len(SCHEMA)
    if not 0 <= version <= newest:
        return (
            f"is of version {version}, this torchzk reads versions up to {newest}; run the torchzk "
            "that wrote it, or name another data folder"
        )
    # more than ours is who looks after it: an index, the statistics of ANALYZE
    if not _schema_of_version(version) <= _schema_of(sql):
        return f"has other tables than a service's; {WHAT_TO_DO}"
    if version < newest:
        missing = "".join(SCHEMA[version:])
        sql.executescript(f"BEGIN IMMEDIATE; {missing} PRAGMA user_version = {newest}; COMMIT;")
    return ""


@cache
def _schema_of_version(version: int) -> set[tuple[str, str]]:
    with closing(sqlite3.connect(":memory:")) as sql:
        sql.executescript("".join(SCHEMA[:version]))
        return _schema_of(sql)


def _schema_of(sql: sqlite3.Connection) -> set[tuple[str, str]]:
    query = "SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL"
    return set(sql.execute(query))
