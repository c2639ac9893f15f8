"""Jobs on disk: there after a crash, each ended once, and every fault of disk and file typed."""

from __future__ import annotations

import errno
import os
import sqlite3
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from serving.durable import request
from torchzk.errors import NotFoundError, ProtocolError, ResourceError, StoreError
from torchzk.serving import job_store, payload
from torchzk.serving.engine import JobSeconds, JobState, Priority, ProofKind, ProofRequest
from torchzk.serving.job_store import JobStore
from torchzk.serving.job_table import JobEnd, JobRow


@pytest.fixture
def store(tmp_path: Path) -> Iterator[JobStore]:
    with JobStore(tmp_path / "data", patience=0.1) as opened:
        yield opened


@pytest.fixture
def in_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """No payload is small."""
    monkeypatch.setattr(job_store, "_SMALL", 0)


@pytest.fixture(params=["in the database", "in files"])
def anywhere(request: pytest.FixtureRequest) -> bool:
    """Payloads are here or there; whether in files."""
    files: bool = request.param == "in files"
    if files:
        request.getfixturevalue("in_files")
    return files


def accept(store: JobStore, wanted: ProofRequest) -> JobRow:
    row, is_there = store.accept(wanted, wanted.digest())
    assert not is_there
    return row


def end(
    store: JobStore, row: JobRow, state: JobState = JobState.COMPLETED, at: float = 1e12
) -> None:
    seconds = JobSeconds(queue_wait=0.5, key_load=1.5, synthesis=2.5, device=3.5, total=9.0)
    store.end(
        (row, JobEnd(job_id=row.job_id, state=state, ended_at=at, seconds=seconds, proof=b"proof"))
    )


def payloads(store: JobStore) -> list[str]:
    """Digests of those in files and of those in the database."""
    files = [path.name for path in (store.folder / "payloads").iterdir()]
    rows = store._table._sql.execute("SELECT lower(hex(digest)) FROM payloads")
    return sorted([*files, *(digest for (digest,) in rows)])


@pytest.mark.usefixtures("anywhere")
def test_what_was_accepted_is_there_again(tmp_path: Path) -> None:
    wanted = ProofRequest(
        request_id="wdpost-1000-3-[12 200 7]\n\0,é",
        kind=ProofKind.UPDATE,
        sector_size=32 << 30,
        registered_proof=3,
        priority=Priority.HIGH,
        vanilla_proofs=(b"", b"\0" * 1000, b"x"),
        sector_number=2**64 - 1,
        miner_id=2**63,
        partition_index=5,
        randomness=b"r" * 32,
        comm_r_old=b"1" * 32,
        comm_r_new=b"2" * 32,
        comm_d_new=b"3" * 32,
        seconds=30.0,
    )
    with JobStore(tmp_path, clock=lambda: 100.0) as store:
        row = accept(store, wanted)
        store.put_piece(row, 2, b"two")
        store.put_piece(row, 0, b"zero")
        store.put_piece(row, 2, b"other")
        store.cancel(row)
        store.try_again(row)
        store.put_piece(row, 7, b"seven")
    with JobStore(tmp_path) as store:
        (found,) = store.unfinished()
        assert found.job_id == found.request_id == wanted.request_id
        assert (found.accepted_at, found.deadline, found.payload_bytes) == (100.0, 130.0, 1001)
        assert (found.kind, found.priority) == (ProofKind.UPDATE, Priority.HIGH)
        assert found.cancelled and found.attempts == 1
        assert store.pieces(found) == {7: b"seven"}
        again = store.request(found)
        assert again.digest() == wanted.digest() and again.vanilla_proofs == wanted.vanilla_proofs
        assert again.registered_proof == 3 and again.miner_id == 2**63


def test_every_commit_is_synced(
    store: JobStore, monkeypatch: pytest.MonkeyPatch, anywhere: bool
) -> None:
    sql = store._table._sql
    assert sql.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert sql.execute("PRAGMA synchronous").fetchone() == (2,)
    synced: list[str] = []
    real = os.fsync

    def fsync(handle: int) -> None:
        synced.append(str(Path(f"/proc/self/fd/{handle}").readlink()))
        real(handle)

    monkeypatch.setattr(os, "fsync", fsync)
    row = accept(store, request())
    if not anywhere:
        # with the row's own commit
        assert synced == []
        return
    file, folder = synced
    assert row.digest.hex() in file and Path(folder) == store.folder / "payloads"


def test_the_first_piece_of_a_partition_stays(store: JobStore) -> None:
    row = accept(store, request())
    for piece in (b"first", b"second"):
        store.put_piece(row, 0, piece)
    assert store.pieces(row) == {0: b"first"}
    end(store, row)
    store.put_piece(row, 1, b"late")
    assert store.pieces(row) == {}


def test_the_same_request_is_the_same_job_as_long_as_it_may_have_a_proof(store: JobStore) -> None:
    first = accept(store, request("a", n=1))
    assert store.accept(request("a", n=1), request("a", n=1).digest()) == (first, True)
    other = accept(store, request("a", n=2))
    assert other.job_id != "a" and other.request_id == "a"
    end(store, first)
    there, is_there = store.accept(request("a", n=1), request("a", n=1).digest())
    assert is_there and there.state is JobState.COMPLETED and store.proof("a") == b"proof"
    for state in (JobState.FAILED, JobState.CANCELLED, JobState.EXPIRED):
        end(store, other, state)
        other = accept(store, request("a", n=2))
    store.cancel(other)
    assert accept(store, request("a", n=2)).job_id != other.job_id
    # who gives no name never means a job that is there
    assert accept(store, request("")).job_id != accept(store, request("")).job_id


def test_a_job_ends_once_and_all_of_several_or_none(store: JobStore) -> None:
    one, two = accept(store, request("1", n=1)), accept(store, request("2", n=2))
    end(store, one)
    with pytest.raises(ProtocolError, match="'1' ends twice: it is completed"):
        end(store, one)
    found = store.find("1")
    assert found is not None and found.seconds.device == 3.5 and found.ended_at == 1e12
    ends = [
        (row, JobEnd(job_id=row.job_id, state=JobState.FAILED, ended_at=1, seconds=JobSeconds()))
        for row in (two, one)
    ]
    with pytest.raises(ProtocolError):
        store.end(*ends)
    assert store.unfinished() == [two]
    nobody = JobEnd(job_id="3", state=JobState.FAILED, ended_at=1, seconds=JobSeconds())
    with pytest.raises(NotFoundError):
        store.end((one, nobody))
    assert store.totals() == {(ProofKind.WINDOW, JobState.COMPLETED): 1}


@pytest.mark.usefixtures("in_files")
def test_payloads_are_kept_as_long_as_a_job_needs_them(tmp_path: Path) -> None:
    with JobStore(tmp_path) as store:
        one, two = accept(store, request("1")), accept(store, request("2"))
        other = accept(store, request("3", n=3))
        assert payloads(store) == sorted([one.digest.hex(), other.digest.hex()])
        end(store, one)
        assert len(payloads(store)) == 2
        # one that ends while the same payload comes once more
        with store.write_payload(request("4"), two.digest):
            end(store, two)
            assert len(payloads(store)) == 2
        assert payloads(store) == [other.digest.hex()]
        # of a process that died between the payload and the row
        (tmp_path / "payloads" / ("0" * 64)).write_bytes(b"")
        # of one that died while it wrote, and that nobody would write to this folder after
        (tmp_path / "payloads" / f".{'1' * 64}.{'2' * 16}.partial").write_bytes(b"")
    with JobStore(tmp_path) as store:
        assert payloads(store) == [other.digest.hex()]
        assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o700


def test_small_payloads_go_with_the_last_job_that_needs_them(tmp_path: Path) -> None:
    with JobStore(tmp_path) as store:
        one, two = accept(store, request("1")), accept(store, request("2"))
        large = accept(store, request("3", pad="x" * job_store._SMALL))
        assert payloads(store) == sorted([one.digest.hex(), large.digest.hex()])
        assert [path.name for path in (tmp_path / "payloads").iterdir()] == [large.digest.hex()]
        end(store, one)
        assert store.request(two).digest() == one.digest and len(payloads(store)) == 2
        for row, name in ((two, "small"), (large, "large")):
            store.save_payload(row, tmp_path / name)
            assert payload.decode((tmp_path / name).read_bytes(), row.digest)
            end(store, row)
            with pytest.raises(StoreError, match="cannot be read"):
                store.request(row)
        assert payloads(store) == []


def test_jobs_are_forgotten_after_their_time_and_counted_for_ever(tmp_path: Path) -> None:
    now = 1000.0
    with JobStore(tmp_path, keep_seconds=50, clock=lambda: now) as store:
        for name, at in (("old", 940.0), ("new", 960.0)):
            end(store, accept(store, request(name)), at=at)
        accept(store, request("waits"))
        assert store.forget_old() == 1
        assert store.find("old") is None and store.find("new") and len(store.unfinished()) == 1
        assert store.totals() == {(ProofKind.WINDOW, JobState.COMPLETED): 2}
        assert [row.job_id for row in store.ended(10)] == ["new"]


def test_a_folder_is_one_stores(tmp_path: Path) -> None:
    with JobStore(tmp_path), pytest.raises(StoreError, match="another service has it"):
        JobStore(tmp_path)
    JobStore(tmp_path).close()


@pytest.mark.usefixtures("anywhere")
def test_a_locked_database_is_a_typed_error_and_nothing_is_lost(store: JobStore) -> None:
    row = accept(store, request("before"))
    other = sqlite3.connect(store.folder / "jobs.sqlite", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreError, match="another process has it locked"):
        store.accept(request("during", n=2), request("during", n=2).digest())
    with pytest.raises(StoreError, match="locked"):
        end(store, row)
    assert row.digest.hex() in payloads(store)
    other.execute("ROLLBACK")
    other.close()
    end(store, row)
    accept(store, request("during", n=2))
    assert [row.request_id for row in store.unfinished()] == ["during"]


def test_a_full_disk_under_the_database(store: JobStore) -> None:
    row = accept(store, request("before"))
    sql = store._table._sql
    (pages,) = sql.execute("PRAGMA page_count").fetchone()
    sql.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(ResourceError, match="the disk is full"):
        for k in range(1000):
            store.put_piece(row, k, b"x" * 1000)
    there = len(store.pieces(row))
    sql.execute("PRAGMA max_page_count = 100000")
    store.put_piece(row, 2000, b"y")
    assert len(store.pieces(row)) == there + 1


@pytest.mark.usefixtures("in_files")
@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_full_disk_under_a_payload(
    store: JobStore, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os if call == "fsync" else Path, call, full)
        with pytest.raises(ResourceError, match="the disk is full"):
            accept(store, request())
    assert payloads(store) == [] and store.unfinished() == []
    accept(store, request())


@pytest.mark.usefixtures("in_files")
def test_a_disk_that_fails_under_a_payload(
    store: JobStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fsync", broken)
    with pytest.raises(StoreError, match="cannot be written: .*Input/output error"):
        accept(store, request())


@pytest.mark.usefixtures("in_files")
@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda path: path.unlink(), "cannot be read: No such file"),
        (lambda path: path.write_bytes(b""), "does not begin as one"),
        (lambda path: path.write_bytes(path.read_bytes()[:-1]), "its header says"),
        (lambda path: path.write_bytes(path.read_bytes()[:-1] + b"?"), "another digest"),
        (lambda path: path.write_bytes(path.read_bytes()[:20] + b"\xff" * 200), "its header"),
    ],
)
def test_a_damaged_payload_is_a_typed_error(
    store: JobStore, damage: Callable[[Path], None], words: str
) -> None:
    row = accept(store, request())
    damage(store.folder / "payloads" / row.digest.hex())
    with pytest.raises(StoreError, match=words):
        store.request(row)


def test_what_a_client_is_told_is_on_the_disk_and_nothing_else_waits_for_it(
    store: JobStore,
) -> None:
    def how(act: Callable[[], object]) -> str:
        """How hard it is written, as SQLite calls it."""
        said: list[str] = []
        store._table._sql.set_trace_callback(said.append)
        act()
        before = said[: said.index("COMMIT")]
        return [line for line in before if "synchronous" in line][-1].rpartition(" ")[2]

    row: list[JobRow] = []
    assert how(lambda: row.append(accept(store, request("x")))) == "FULL"
    assert how(lambda: store.begin(row[0])) == "NORMAL"
    assert how(lambda: store.put_piece(row[0], 0, b"piece")) == "NORMAL"
    assert how(lambda: store.cancel(row[0])) == "FULL"
    assert how(lambda: end(store, row[0])) == "FULL"
    assert how(lambda: store.forget_old()) == "FULL"
