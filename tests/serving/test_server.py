"""A server from start to end: sockets, health, reflection, signals."""

from __future__ import annotations

import signal
import socket
import threading
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection_pb2

from child_environment import run_python
from fake_devices import until
from serving.services import HERE, service, write_config
from torchzk.serving.wire import proving_pb2 as wire

SERVICE = "cuzk.v1.ProvingEngine"


def call(channel: grpc.Channel, method: str, request: Any, cls: Any, timeout: float = 120.0) -> Any:
    made: Any = channel.unary_unary(method, lambda m: m.SerializeToString(), cls.FromString)
    return made(request, timeout=timeout, wait_for_ready=True)


def raw_call(channel: grpc.Channel, name: str) -> Any:
    """One of the eight, bytes in and bytes out."""
    made: Any = channel.unary_unary(f"/{SERVICE}/{name}")
    return made


def stream_call(channel: grpc.Channel, method: str) -> Any:
    """Any method, many bytes in and many out."""
    made: Any = channel.stream_stream(method)
    return made


def ask(channel: grpc.Channel, name: str, request: Any, cls: Any, timeout: float = 120.0) -> Any:
    return call(channel, f"/{SERVICE}/{name}", request, cls, timeout)


def health(channel: grpc.Channel, name: str = SERVICE) -> int:
    request = health_pb2.HealthCheckRequest(service=name)
    answer = health_pb2.HealthCheckResponse
    return int(call(channel, "/grpc.health.v1.Health/Check", request, answer).status)


def reflect(channel: grpc.Channel, wanted: Any) -> Any:
    method = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"
    (raw,) = stream_call(channel, method)(iter([wanted.SerializeToString()]))
    return reflection_pb2.ServerReflectionResponse.FromString(raw)


def winning(word: bytes) -> wire.SubmitProofRequest:
    return wire.SubmitProofRequest(
        request_id=word.decode(),
        proof_kind=wire.WINNING_POST,
        sector_size=2048,
        vanilla_proofs=[word],
        randomness=bytes(32),
    )


def submit(channel: grpc.Channel, word: bytes) -> str:
    said = ask(channel, "SubmitProof", winning(word), wire.SubmitProofResponse)
    return str(said.job_id)


def fails(config: Path) -> str:
    """What a service says that does not start."""
    done = run_python(HERE / "fake_service.py", config)
    assert done.returncode == 1 and not done.stdout
    return done.stderr.splitlines()[-1]


def test_health_and_reflection(tmp_path: Path) -> None:
    with (
        service(write_config(tmp_path)) as (_, where),
        grpc.insecure_channel(where) as channel,
    ):
        serving = health_pb2.HealthCheckResponse.SERVING
        assert health(channel) == health(channel, "") == serving
        with pytest.raises(grpc.RpcError) as refused:
            health(channel, "other")
        assert refused.value.code() is grpc.StatusCode.NOT_FOUND
        wanted = reflection_pb2.ServerReflectionRequest(list_services="")
        answer = reflect(channel, wanted)
        names = {s.name for s in answer.list_services_response.service}
        assert names >= {SERVICE, "grpc.health.v1.Health"}
        wanted = reflection_pb2.ServerReflectionRequest(file_containing_symbol=SERVICE)
        answer = reflect(channel, wanted)
        described = answer.file_descriptor_response.file_descriptor_proto
        assert wire.DESCRIPTOR.serialized_pb in described
        with pytest.raises(grpc.RpcError) as refused:
            ask(channel, "Nothing", wire.GetStatusRequest(), wire.GetStatusResponse)
        assert refused.value.code() is grpc.StatusCode.UNIMPLEMENTED


def test_a_message_that_is_none_and_a_call_without_one(tmp_path: Path) -> None:
    with (
        service(write_config(tmp_path)) as (_, where),
        grpc.insecure_channel(where) as channel,
    ):
        for name in ("SubmitProof", "Prove", "AwaitProof", "GetStatus"):
            with pytest.raises(grpc.RpcError) as refused:
                raw_call(channel, name)(b"\xff\xff", timeout=120)
            assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
            with pytest.raises(grpc.RpcError) as refused:
                list(stream_call(channel, f"/{SERVICE}/{name}")(iter([]), timeout=120))
            assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
            assert refused.value.details() == "the call ended before its message"


def test_an_upload_that_stalls_is_ended_and_holds_up_one_place_only(tmp_path: Path) -> None:
    text = "listen: 127.0.0.1:0\nlimits: {uploads: 2, upload_time: 2s}\n"
    over = threading.Event()
    with (
        service(write_config(tmp_path, text)) as (_, where),
        grpc.insecure_channel(where) as channel,
    ):

        def never() -> Any:
            over.wait(60)
            yield b""

        stalled = stream_call(channel, f"/{SERVICE}/Prove")(never())
        assert submit(channel, b"prove") == "prove"
        assert stalled.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        assert "did not arrive in 2 s" in stalled.details()
        over.set()


def test_calls_beyond_the_limit_are_refused_at_once(tmp_path: Path) -> None:
    text = "listen: 127.0.0.1:0\nlimits: {calls: 4}\n"
    with (
        service(write_config(tmp_path, text)) as (_, where),
        grpc.insecure_channel(where) as channel,
    ):
        job = submit(channel, b"hold")
        raw = wire.AwaitProofRequest(job_id=job).SerializeToString()
        waiting = [raw_call(channel, "AwaitProof").future(raw) for _ in range(5)]
        # whichever came last
        until(lambda: any(future.done() for future in waiting))
        (refused,) = (future for future in waiting if future.done())
        assert refused.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        waiting.remove(refused)
        for _ in range(3):
            with pytest.raises(grpc.RpcError) as again:
                raw_call(channel, "AwaitProof")(raw, timeout=120)
            assert again.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert not any(future.done() for future in waiting)
        waiting[0].cancel()
        until(lambda: answers(channel))


def answers(channel: grpc.Channel) -> bool:
    """Whether a service has a place for one more call."""
    try:
        ask(channel, "GetStatus", wire.GetStatusRequest(), wire.GetStatusResponse)
    except grpc.RpcError as e:
        assert e.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        return False
    return True


def test_a_socket_is_its_owners_and_goes_with_the_service(tmp_path: Path) -> None:
    path = tmp_path / "zk.sock"
    config = write_config(tmp_path, f"listen: unix://{path}\n")
    with service(config) as (process, where):
        assert where == f"unix://{path}"
        assert path.stat().st_mode & 0o777 == 0o600
        with grpc.insecure_channel(f"unix:{path}") as channel:
            assert submit(channel, b"prove") == "prove"
            assert "another service answers on" in fails(config)
            assert submit(channel, b"prove") == "prove"
        process.send_signal(signal.SIGTERM)
        assert process.wait(120) == 0
    assert not path.exists()
    # one that a killed service left behind is in nobody's way
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    with service(config), grpc.insecure_channel(f"unix:{path}") as channel:
        assert submit(channel, b"prove") == "prove"
    path.unlink(missing_ok=True)
    path.write_text("mine")
    assert "is there and is no socket" in fails(config)
    assert path.read_text() == "mine"


def test_a_port_is_one_services_alone(tmp_path: Path) -> None:
    with service(write_config(tmp_path)) as (_, where):
        assert "another process does" in fails(write_config(tmp_path, f"listen: {where}\n"))


def test_the_first_signal_drains(tmp_path: Path) -> None:
    with (
        service(write_config(tmp_path)) as (process, where),
        grpc.insecure_channel(where) as channel,
    ):
        go = tmp_path / "go"
        running = submit(channel, f"when {go}".encode())
        queued = submit(channel, b"queue")
        wait = raw_call(channel, "AwaitProof").future
        futures = [
            wait(wire.AwaitProofRequest(job_id=job).SerializeToString(), timeout=120)
            for job in (running, queued)
        ]
        ask(channel, "GetStatus", wire.GetStatusRequest(), wire.GetStatusResponse)
        process.send_signal(signal.SIGTERM)
        until(lambda: health(channel) == health_pb2.HealthCheckResponse.NOT_SERVING)
        with pytest.raises(grpc.RpcError) as refused:
            submit(channel, b"prove")
        assert refused.value.code() is grpc.StatusCode.UNAVAILABLE
        assert refused.value.details() == "the service is about to stop"
        go.touch()
        ended = wire.AwaitProofResponse.FromString(futures[0].result())
        assert ended.status == wire.AwaitProofResponse.COMPLETED
        assert futures[1].code() is grpc.StatusCode.UNAVAILABLE
        assert "goes on when it starts again" in futures[1].details()
        assert process.wait(120) == 0
        assert process.stdout and process.stdout.read() == "1 left\n"


@pytest.mark.parametrize("first", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGINT])
def test_the_second_signal_ends_at_once(tmp_path: Path, first: int, second: int) -> None:
    with (
        service(write_config(tmp_path)) as (process, where),
        grpc.insecure_channel(where) as channel,
    ):
        submit(channel, b"hold")
        process.send_signal(first)
        assert process.stderr and "stops: jobs that run" in process.stderr.readline()
        assert process.poll() is None
        process.send_signal(second)
        assert process.wait(120) == -second


def test_draining_has_an_end(tmp_path: Path) -> None:
    text = "listen: 127.0.0.1:0\nlimits: {drain: 200ms}\n"
    with (
        service(write_config(tmp_path, text)) as (process, where),
        grpc.insecure_channel(where) as channel,
    ):
        submit(channel, b"hold")
        process.send_signal(signal.SIGINT)
        assert process.wait(120) == 0
        assert process.stdout and process.stdout.read() == "1 left\n"
