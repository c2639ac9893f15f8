"""Databases of older versions are taken over; those that are none of ours are left alone."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from serving.durable import request
from serving.test_job_store import accept, end, payloads
from torchzk.errors import StoreError
from torchzk.serving import job_schema, job_store
from torchzk.serving.job_store import JobStore


def test_a_folder_of_the_first_version_is_taken_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = request("old")
    with monkeypatch.context() as then:
        then.setattr(job_schema, "SCHEMA", job_schema.SCHEMA[:1])
        then.setattr(job_store, "_SMALL", 0)
        with JobStore(tmp_path) as store:
            accept(store, wanted)
    with JobStore(tmp_path) as store:
        (old,) = store.unfinished()
        accept(store, request("new", n=2))
        assert store.request(old).vanilla_proofs == wanted.vanilla_proofs
        end(store, old)
        assert len(payloads(store)) == 1


def no_database(path: Path) -> None:
    path.write_bytes(b"this is not a database, but long enough to be looked at" * 100)


def cut_short(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:5000])


def torn(path: Path) -> None:
    whole = bytearray(path.read_bytes())
    whole[4096:12288] = os.urandom(8192)
    path.write_bytes(whole)


def newer(path: Path) -> None:
    with sqlite3.connect(path) as sql:
        sql.execute("PRAGMA user_version = 99")
    sql.close()


def others(path: Path) -> None:
    with sqlite3.connect(path) as sql:
        sql.execute("ALTER TABLE pieces RENAME TO parts")
    sql.close()


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (no_database, "is damaged"),
        (cut_short, "is damaged"),
        (torn, "is damaged"),
        (newer, "is of version 99, this torchzk reads versions up to 2"),
        (others, "has other tables than a service's"),
    ],
)
def test_a_database_that_is_none_is_refused_and_left_alone(
    tmp_path: Path, damage: Callable[[Path], None], words: str
) -> None:
    with JobStore(tmp_path) as store:
        for k in range(40):
            accept(store, request(f"{k}", n=k))
    path = tmp_path / "jobs.sqlite"
    damage(path)
    before = path.read_bytes()
    for _ in range(2):
        with pytest.raises(StoreError, match=words):
            JobStore(tmp_path)
    assert path.read_bytes() == before


def test_who_looks_after_a_database_may_add_to_it(tmp_path: Path) -> None:
    with JobStore(tmp_path) as store:
        accept(store, request())
    with sqlite3.connect(tmp_path / "jobs.sqlite") as sql:
        sql.execute("CREATE INDEX mine ON jobs (kind)")
        sql.execute("ANALYZE")
    sql.close()
    with JobStore(tmp_path) as store:
        assert len(store.unfinished()) == 1
