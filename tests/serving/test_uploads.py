"""Large, damaged and broken-off requests: what they cost, and that they hold up nobody."""

from __future__ import annotations

import time
from pathlib import Path

import grpc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fake_devices import until
from serving.services import service, write_config
from serving.test_server import ask, raw_call, submit
from torchzk.errors import InputError
from torchzk.serving.engine import ProofRequest
from torchzk.serving.requests import parse, proof_request
from torchzk.serving.wire import proving_pb2 as wire
from torchzk.serving.wire_scan import check_fields

MIB = 1 << 20
SENDS = [("grpc.max_send_message_length", 256 * MIB)]


def porep(payload: bytes, request_id: str) -> bytes:
    said = wire.SubmitProofRequest(
        request_id=request_id,
        proof_kind=wire.POREP_SEAL_COMMIT,
        sector_size=2048,
        vanilla_proof=payload,
    )
    return wire.ProveRequest(submit=said).SerializeToString()


def peak(pid: int) -> int:
    """The most memory a process has had, in bytes."""
    status = Path(f"/proc/{pid}/status").read_text()
    (line,) = (line for line in status.splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) << 10


def running(channel: grpc.Channel) -> int:
    """How many PoReps are at work."""
    said = ask(channel, "GetStatus", wire.GetStatusRequest(), wire.GetStatusResponse)
    return int(next(q.in_progress for q in said.queues if q.proof_kind == "porep-c2"))


def test_a_request_of_many_fields_takes_no_more_than_its_bytes(tmp_path: Path) -> None:
    with (
        service(write_config(tmp_path)) as (process, where),
        grpc.insecure_channel(where, SENDS) as channel,
    ):
        submit(channel, b"prove")
        before = peak(process.pid)
        # as objects they would be gigabytes
        raw = b"\x5a\x00" * (24 * MIB)
        began = time.monotonic()
        with pytest.raises(grpc.RpcError) as refused:
            raw_call(channel, "SubmitProof")(raw, timeout=120)
        assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert time.monotonic() - began < 60
        assert peak(process.pid) - before < 4 * len(raw)


def test_who_waits_holds_no_payload(tmp_path: Path) -> None:
    text = "listen: 127.0.0.1:0\nlimits: {uploads: 1}\n"
    with (
        service(write_config(tmp_path, text)) as (process, where),
        grpc.insecure_channel(where, SENDS) as channel,
    ):
        submit(channel, b"prove")
        before = peak(process.pid)
        payload = b"hold\n" + bytes(8 * MIB)
        waiting = []
        for i in range(32):
            # one after the other: how much of many is under way at once is gRPC's matter
            waiting.append(raw_call(channel, "Prove").future(porep(payload + b"%d" % i, f"p{i}")))
            until(lambda: running(channel) == len(waiting))  # noqa: B023
        assert not any(future.done() for future in waiting)
        # 256 MiB came in; kept they would be there twice, as bytes and as messages
        assert peak(process.pid) - before < 192 * MIB


def test_the_limit_is_the_messages_own(tmp_path: Path) -> None:
    text = "listen: 127.0.0.1:0\nlimits: {message: 1MiB}\n"
    with (
        service(write_config(tmp_path, text)) as (_, where),
        grpc.insecure_channel(where) as channel,
    ):
        rest = len(porep(b"prove\n" + bytes(MIB - 100), "limit")) - (MIB - 100)
        whole = porep(b"prove\n" + bytes(MIB - rest), "limit")
        assert len(whole) == MIB
        assert raw_call(channel, "Prove")(whole, timeout=120)
        with pytest.raises(grpc.RpcError) as refused:
            raw_call(channel, "Prove")(whole + b"\x00", timeout=120)
        assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert refused.value.details() == (
            "SERVER: Received message larger than max (1048577 vs. 1048576)"
        )


def test_uploads_that_break_off_leave_their_place(tmp_path: Path) -> None:
    text = "listen: 127.0.0.1:0\nlimits: {uploads: 1}\n"
    with (
        service(write_config(tmp_path, text)) as (_, where),
        grpc.insecure_channel(where, SENDS) as channel,
    ):
        raw = porep(b"hold\n" + bytes(64 * MIB), "gone")
        for _ in range(8):
            call = raw_call(channel, "Prove").future(raw)
            time.sleep(0.005)
            call.cancel()
        with grpc.insecure_channel(where, SENDS) as other:
            raw_call(other, "Prove").future(raw)
        assert submit(channel, b"prove") == "prove"


@settings(max_examples=300, deadline=None)
@given(raw=st.binary(max_size=200))
def test_bytes_are_a_request_or_an_input_error(raw: bytes) -> None:
    try:
        check_fields(raw, "request")
        assert isinstance(proof_request(parse(wire.SubmitProofRequest, raw)), ProofRequest)
    except InputError as e:
        assert str(e).isprintable()


HASH = st.sampled_from([b"", bytes(31), bytes(32), bytes(33)])
NUMBER = st.sampled_from([0, 1, 5, 13, 20, 2048, 32 << 30, (1 << 64) - 1])


@settings(max_examples=500, deadline=None)
@given(
    said=st.builds(
        wire.SubmitProofRequest,
        request_id=st.text(max_size=3),
        proof_kind=st.sampled_from([0, 1, 2, 3, 4, 5, -1, (1 << 31) - 1]),
        sector_size=NUMBER,
        registered_proof=NUMBER,
        priority=st.sampled_from([0, 1, 2, 3, 4, 5, -1]),
        vanilla_proof=st.sampled_from([b"", b"x"]),
        vanilla_proofs=st.lists(st.sampled_from([b"", b"x"]), max_size=3),
        sector_number=NUMBER,
        miner_id=NUMBER,
        randomness=HASH,
        partition_index=st.sampled_from([0, 1, (1 << 32) - 1]),
        comm_r_old=HASH,
        comm_r_new=HASH,
        comm_d_new=HASH,
        deadline_ms=NUMBER,
    )
)
def test_any_values_are_a_request_or_an_input_error(said: wire.SubmitProofRequest) -> None:
    try:
        request = proof_request(said)
    except InputError as e:
        assert str(e).partition(":")[0] in said.DESCRIPTOR.fields_by_name
    else:
        assert request.vanilla_proofs and all(request.vanilla_proofs)
        assert len(request.digest()) == 32
