"""What a service finds of its jobs when it starts again: payloads, rows, a database."""

from __future__ import annotations

import json
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from random import Random

from fuzz.mutators import json_text
from fuzz.target import Read, Target
from torchzk.errors import NotFoundError, ResourceError, StoreError
from torchzk.serving import payload
from torchzk.serving.engine import Priority, ProofKind, ProofRequest
from torchzk.serving.job_store import JobStore
from torchzk.serving.job_table import JobTable
from torchzk.serving.live_job import report_of


def kept_files() -> Iterator[bytes]:
    """Payload files, rows of jobs, and a database."""
    request = ProofRequest(
        request_id="",
        kind=ProofKind.UPDATE,
        sector_size=2048,
        registered_proof=None,
        priority=Priority.NORMAL,
        vanilla_proofs=(b"abc", b"", b"x" * 50),
        sector_number=2**64 - 1,
        comm_r_old=b"1" * 32,
    )
    whole = b"".join(payload.encode(request))
    yield from (b"\0" + whole, b"\0" + whole[:-1], b"\0" + whole.replace(b"50", b"-9"), b"\0")
    start, end = whole.index(b"{"), whole.index(b"}") + 1
    sizes = [whole[start:end].replace(b"2048", size) for size in (b"1e999", b"null", b"-1")]
    back_and_forth = whole[start:end].replace(b"[0", b"[1, -1, 1, -1, 0")
    for header in (*sizes, back_and_forth, b"[" * 5000):
        length = len(header).to_bytes(8, "little")
        yield b"\0" + whole[: start - 8] + length + header + whole[end:]
    job = ["a", "a", "ab" * 32, "window-post", 2048, 2, 9, 1.5, None, "queued", 0, 0, 0, None]
    ended = [*job[:9], "failed", 1, 1, 1, 2.5, "", "InputError", "sectors: bad", 0, 0, 0.5, 0, 1]
    yield b"\1" + json.dumps([*job, "", "", "", 0, 0, 0, 0, 0]).encode()
    yield b"\1" + json.dumps(ended).encode()


def kept_changes(data: bytes, rng: Random, plain: Callable[[bytes], bytes]) -> bytes:
    """Changes of a payload's header, with the length that belongs to it; of a row's values."""
    if data[:1] == b"\1":
        return data[:1] + json_text(data[1:], rng, plain)
    magic = len(b"\0torchzk payload 1\n")
    n = int.from_bytes(data[magic : magic + 8], "little")
    header, rest = data[magic + 8 : magic + 8 + n], data[magic + 8 + n :]
    if rng.random() < 0.3 or len(header) < n:
        return data[:1] + plain(data[1:])
    header = json_text(header, rng, plain)
    return data[:magic] + len(header).to_bytes(8, "little") + header + rest


COLUMNS = (
    *("job_id", "request_id", "digest", "kind", "sector_size", "priority", "payload_bytes"),
    *("accepted_at", "deadline", "state", "cancelled", "attempts", "begun", "ended_at", "proof"),
    *("error_type", "error_message", "queue_wait", "key_load", "synthesis", "device", "total"),
)


@contextmanager
def open_kept(folder: Path) -> Iterator[Read]:
    store = JobStore(folder / "data")
    sql = sqlite3.connect(folder / "data" / "jobs.sqlite", isolation_level=None)
    sql.execute("PRAGMA synchronous = OFF")
    insert = f"INSERT INTO jobs ({', '.join(COLUMNS)}) VALUES ({', '.join('?' * len(COLUMNS))})"

    def row(data: bytes) -> None:
        try:
            values = json.loads(data)
            values[2], values[14] = bytes.fromhex(values[2]), bytes.fromhex(values[14])
            sql.execute("DELETE FROM jobs")
            sql.execute(insert, values)
        except (ValueError, TypeError, LookupError, OverflowError, RecursionError, sqlite3.Error):
            # no row that a table of ours can have
            return
        for found in (*store.unfinished(), *store.ended(10)):
            report_of(found, proof=store.proof(found.job_id))
            store.pieces(found)
            if not found.state.ended:
                store.request(found)
        store.totals()

    def read(data: bytes) -> None:
        if data[:1] == b"\1":
            row(data[1:])
        else:
            # nobody finds another file of a given digest
            payload.decode(data[1:], bytes(32))
            raise AssertionError("a payload of another digest was read")

    with store, closing(sql):
        yield read


@contextmanager
def open_database(folder: Path) -> Iterator[Read]:
    path = folder / "jobs.sqlite"

    def read(data: bytes) -> None:
        for suffix in ("", "-wal", "-shm"):
            path.with_name(path.name + suffix).unlink(missing_ok=True)
        path.write_bytes(data)
        with closing(JobTable(path, 0.1)) as table:
            for found in (*table.unfinished(), *table.ended(10)):
                report_of(found, proof=table.proof(found.job_id))
                table.pieces(found.number)
            table.totals()
            table.wants(bytes(32))
            table.probe()

    yield read


def databases() -> Iterator[bytes]:
    """A database with a row of each kind, as a file."""
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "jobs.sqlite"
        JobTable(path).close()
        with closing(sqlite3.connect(path, isolation_level=None)) as sql:
            sql.execute("PRAGMA page_size = 512")
            sql.execute("PRAGMA journal_mode = DELETE")
            for k, seed in enumerate(s for s in kept_files() if s[:1] == b"\1"):
                values = json.loads(seed[1:])
                values[0], values[2], values[14] = str(k), bytes(32), b"proof"
                marks = ", ".join("?" * len(COLUMNS))
                sql.execute(f"INSERT INTO jobs ({', '.join(COLUMNS)}) VALUES ({marks})", values)
            sql.execute("INSERT INTO totals VALUES ('window-post', 'failed', 3)")
            sql.execute("INSERT INTO pieces VALUES (1, 0, x'00')")
            sql.execute("VACUUM")
        yield path.read_bytes()


TARGETS = (
    Target(
        name="kept",
        open=open_kept,
        seeds=kept_files,
        errors=(StoreError,),
        mutate=kept_changes,
        longest=1 << 13,
    ),
    Target(
        name="database",
        open=open_database,
        seeds=databases,
        errors=(StoreError, ResourceError, NotFoundError),
        longest=1 << 16,
    ),
)
