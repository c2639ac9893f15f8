"""What clients send to a service, and the files that a client sends."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, NoReturn

import grpc
from google.protobuf.message import DecodeError

from fuzz.job_targets import post_jobs
from fuzz.layout_samples import SMALL
from fuzz.mutators import after_first_byte, json_text, junk
from fuzz.target import Read, Target
from serving.fake_engine import FakeEngine
from torchzk.circuits.registry import get_circuit
from torchzk.errors import ConfigError, InputError
from torchzk.serving import payload
from torchzk.serving.circuit_ids import circuit_word
from torchzk.serving.engine import Accepted, ProofKind, ProofRequest
from torchzk.serving.front import SERVICE, Front, method_names
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

    def run_in_executor(  # type: ignore[override]
        self, _: object, call: Callable[..., Any], *given: Any
    ) -> asyncio.Future[Any]:
        future: asyncio.Future[Any] = self.create_future()
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
    calls: dict[str, Any] = {}
    for name in METHODS:
        wanted: Any = SimpleNamespace(method=f"/{SERVICE}/{name}", invocation_metadata=())
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
    said_of: Any = wire.SubmitProofRequest
    hashes = dict.fromkeys(("comm_r_old", "comm_r_new", "comm_d_new"), b"1" * 32)
    for kind, rest in ((1, {"vanilla_proof": b"{}"}), (2, {"vanilla_proofs": [b"x"], **hashes})):
        short = said_of(
            request_id="a", proof_kind=kind, sector_size=2048, priority=9, miner_id=7, **rest
        )
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
    method = METHODS[data[0] % len(METHODS) if data else 0]
    wrapped = wire.ProveRequest() if method == "Prove" else None
    said = wrapped.submit if wrapped is not None else wire.SubmitProofRequest()
    if method not in ("SubmitProof", "Prove") or rng.random() < 0.4:
        return data[:1] + plain(data[1:])
    try:
        (wrapped or said).ParseFromString(data[1:])
    except DecodeError:
        return data[:1] + plain(data[1:])
    for _ in range(rng.randint(1, 3)):
        name = rng.choice(list(wire.SubmitProofRequest.DESCRIPTOR.fields_by_name))
        value = junk(rng)
        with_text = str(value)[:2000].encode("utf-8", "replace")
        try:
            if name == "vanilla_proofs":
                if said.vanilla_proofs and rng.random() < 0.8:
                    k = rng.randrange(len(said.vanilla_proofs))
                    said.vanilla_proofs[k] = plain(said.vanilla_proofs[k])
                else:
                    said.vanilla_proofs.append(with_text)
            elif isinstance(value, int):
                setattr(said, name, value)
            elif name == "request_id":
                said.request_id = with_text.decode()
            else:
                setattr(said, name, with_text)
        except (ValueError, TypeError):
            # it is of another type, which no message can have
            continue
    return data[:1] + (wrapped or said).SerializeToString()


def submission_files() -> Iterator[bytes]:
    for k, job in enumerate(post_jobs((SMALL,))):
        yield bytes([2 + (k > 3)]) + job
    for kind in (1, 2, 3):
        yield bytes([kind]) + b'["AAAA", "AA=="]'
        yield bytes([kind]) + b" AAAA\n"
        yield bytes([kind]) + b'"AAAA"'
    update: dict[str, Any] = {"kind": "update", "vanilla_proofs": ["AAAA"], "miner_id": 2**64 - 1}
    update |= dict.fromkeys(("comm_r_old", "comm_r_new", "comm_d_new"), "0a" * 32)
    update |= {"registered_proof": 3, "sector_size": 32 << 30, "sector_number": 0}
    yield b"\1" + json.dumps(update).encode()
    window = {"kind": "window", "vanilla_proofs": ["AAAA"], "randomness": "0a" * 32}
    yield b"\2" + json.dumps({**window, "partition_index": 1 << 32}).encode()
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
)
