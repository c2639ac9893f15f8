"""What clients send to a service, and what it and its client read back from disk."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, NoReturn

import grpc
from google.protobuf.message import DecodeError

from fuzz.job_targets import post_jobs
from fuzz.mutators import after_first_byte, json_text, junk
from fuzz.target import Read, Target
from serving.fake_engine import FakeEngine
from torchzk.circuits.registry import get_circuit
from torchzk.errors import ConfigError, InputError, NotFoundError, ResourceError, StoreError
from torchzk.serving import payload
from torchzk.serving.circuit_ids import circuit_word
from torchzk.serving.engine import Accepted, Priority, ProofKind, ProofRequest
from torchzk.serving.front import SERVICE, Front, method_names
from torchzk.serving.job_store import JobStore
from torchzk.serving.job_table import JobTable
from torchzk.serving.live_job import report_of
from torchzk.serving.request_source import check_agrees, source_of
from torchzk.serving.requests import proof_request
from torchzk.serving.serve_config import LimitConfig
from torchzk.serving.submissions import Submission, message_of
from torchzk.serving.wire import proving_pb2 as wire

METHODS = tuple(method_names())
JOBS = Path(__file__).parents[1] / "golden" / "jobs"


class ReadingEngine(FakeEngine):
    """Reads what is submitted as a service's worker does, and keeps nothing."""

    def submit(self, request: ProofRequest) -> Accepted:
        digest = request.digest()
        again = payload.decode(b"".join(payload.encode(request)), digest)
        assert again.digest() == digest
        source = source_of(request)
        circuit = get_circuit(circuit_word(request.kind), request.sector_size)
        job = circuit.read_job(
            source.source, miner_id=source.miner_id, sector_number=source.sector_number
        )
        check_agrees(request, job)
        return Accepted(request.request_id, 0, joined=False)

    def refused(self, call: str, code: str) -> None:
        """Nobody counts."""


class OneThread(asyncio.SelectorEventLoop):
    """A loop that calls at once what belongs to other threads: a run is the same every time."""

    def run_in_executor(self, _: Any, call: Callable[..., Any], *given: Any) -> Any:
        future = self.create_future()
        try:
            future.set_result(call(*given))
        except Exception as e:
            future.set_exception(e)
        return future


class Refused(Exception):  # noqa: N818 - what the framework's abort raises
    """The call ended with a status."""


class Context:
    """Of one call: its message, and how it ended."""

    def __init__(self, raw: bytes) -> None:
        self._raw = raw

    async def read(self) -> bytes:
        return self._raw

    async def abort(self, code: grpc.StatusCode, details: str) -> NoReturn:
        assert code is not grpc.StatusCode.INTERNAL, details
        assert details and len(details) <= 2000 and details.isprintable()
        raise Refused


@contextmanager
def open_front(_: Path) -> Iterator[Read]:
    """The servicer's own functions, in an event loop."""

    def fault(text: str) -> NoReturn:
        raise AssertionError(text)

    engine, loop = ReadingEngine(), OneThread()

    async def begin() -> Front:
        return Front(engine, LimitConfig(), fault)

    front = loop.run_until_complete(begin())
    calls = {}
    for name in METHODS:
        wanted = SimpleNamespace(method=f"/{SERVICE}/{name}", invocation_metadata=())
        handler = front.handlers().service(wanted)
        assert handler is not None
        calls[name] = handler.stream_unary

    def read(data: bytes) -> None:
        name = METHODS[data[0] % len(METHODS) if data else 0]
        try:
            answer = loop.run_until_complete(calls[name](None, Context(data[1:])))
        except Refused:
            return
        reply = wire.DESCRIPTOR.services_by_name["ProvingEngine"].methods_by_name[name].output_type
        getattr(wire, reply.name).FromString(answer)

    try:
        yield read
    finally:
        front.stop()
        loop.close()


def messages() -> Iterator[bytes]:
    job = json.loads((JOBS / "sector2k_a_window1.bincode.json").read_text())
    said = Submission(kind=ProofKind.WINDOW, vanilla=JOBS / "sector2k_a_window1.bincode.json")
    submit = message_of(said.named("wdpost-1-[2 3]\n,../é"))
    assert job["sector_size"] == submit.sector_size
    index = {name: bytes([k]) for k, name in enumerate(METHODS)}
    yield index["SubmitProof"] + submit.SerializeToString()
    for kind, proofs in ((1, {"vanilla_proof": b"{}"}), (2, {"vanilla_proofs": [b"x"]})):
        short = wire.SubmitProofRequest(
            request_id="a", proof_kind=kind, sector_size=2048, priority=9, miner_id=7, **proofs
        )
        short.comm_r_old = short.comm_r_new = short.comm_d_new = b"1" * 32 if kind == 2 else b""
        yield index["SubmitProof"] + short.SerializeToString()
        yield index["Prove"] + wire.ProveRequest(submit=short).SerializeToString()
    awaited = wire.AwaitProofRequest(job_id="a\0b", timeout_ms=1)
    yield index["AwaitProof"] + awaited.SerializeToString()
    yield index["CancelProof"] + wire.CancelProofRequest(job_id="x").SerializeToString()
    yield index["PreloadSRS"] + wire.PreloadSrsRequest(circuit_id="wpost-2k").SerializeToString()
    yield index["EvictSRS"] + wire.EvictSrsRequest(circuit_id="WPOST-2k").SerializeToString()
    yield from (bytes([k]) for k in range(len(METHODS)))
    yield index["SubmitProof"] + b"\x5a\0" * 20001
    yield index["Prove"] + b"\x0a\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01"


def message_fields(data: bytes, rng: Random, plain: Callable[[bytes], bytes]) -> bytes:
    """Puts junk into fields of a request to prove, where the input is one."""
    name = METHODS[data[0] % len(METHODS) if data else 0]
    wrapped = wire.ProveRequest() if name == "Prove" else None
    said = wrapped.submit if wrapped is not None else wire.SubmitProofRequest()
    if name not in ("SubmitProof", "Prove") or rng.random() < 0.4:
        return data[:1] + plain(data[1:])
    try:
        (wrapped or said).ParseFromString(data[1:])
    except DecodeError:
        return data[:1] + plain(data[1:])
    for _ in range(rng.randint(1, 3)):
        field = rng.choice(wire.SubmitProofRequest.DESCRIPTOR.fields)
        value = junk(rng)
        with_text = str(value)[:2000].encode("utf-8", "replace")
        try:
            if field.name == "vanilla_proofs":
                if said.vanilla_proofs and rng.random() < 0.8:
                    k = rng.randrange(len(said.vanilla_proofs))
                    said.vanilla_proofs[k] = plain(said.vanilla_proofs[k])
                else:
                    said.vanilla_proofs.append(with_text)
            elif isinstance(value, int):
                setattr(said, field.name, value)
            elif field.name == "request_id":
                said.request_id = with_text.decode()
            else:
                setattr(said, field.name, with_text)
        except (ValueError, TypeError):
            # it is of another type, which no message can have
            continue
    return data[:1] + (wrapped or said).SerializeToString()


def submission_files() -> Iterator[bytes]:
    for k, job in enumerate(post_jobs()):
        yield bytes([2 + (k > 3)]) + job
    for kind in (1, 2, 3):
        yield bytes([kind]) + b'["AAAA", "AA=="]'
        yield bytes([kind]) + b" AAAA\n"
        yield bytes([kind]) + b'"AAAA"'
    job = {"kind": "update", "vanilla_proofs": ["AAAA"], "miner_id": 2**64 - 1}
    job |= dict.fromkeys(("comm_r_old", "comm_r_new", "comm_d_new"), "0a" * 32)
    job |= {"registered_proof": 3, "sector_size": 32 << 30, "sector_number": 0}
    yield b"\1" + json.dumps(job).encode()
    yield b"\0{}"


@contextmanager
def open_submissions(folder: Path) -> Iterator[Read]:
    path, kinds = folder / "proof.json", tuple(ProofKind)

    def read(data: bytes) -> None:
        path.write_bytes(data[1:])
        kind = kinds[data[0] % 4 if data else 0]
        porep = kind is ProofKind.POREP
        said = Submission(kind=kind, c1=path if porep else None, vanilla=None if porep else path)
        message = message_of(said)
        again = wire.SubmitProofRequest.FromString(message.SerializeToString())
        assert proof_request(again).digest() == proof_request(message).digest()

    yield read


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
    import tempfile

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
        name="requests",
        open=open_front,
        seeds=messages,
        errors=(),
        mutate=message_fields,
        longest=1 << 16,
    ),
    Target(
        name="submissions",
        open=open_submissions,
        seeds=submission_files,
        errors=(InputError, ConfigError),
        mutate=after_first_byte(json_text),
    ),
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
