"""Who may call: tokens, and addresses that need them."""

from __future__ import annotations

import re
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2

from serving.services import HERE, service, write_config
from serving.test_server import health, raw_call, stream_call
from torchzk.errors import ConfigError
from torchzk.serving.front import method_names
from torchzk.serving.guard import read_token
from torchzk.serving.serve_config import (
    LimitConfig,
    ServeConfig,
    ServedCircuit,
    TlsConfig,
    load_serve_config,
    parse_address,
)
from torchzk.serving.status_codes import STATUS_CODES

SHIPPED = sorted((HERE.parents[1] / "configs" / "serve").glob("*.yaml"))
TOKEN = "correct-horse-battery"


def token_file(folder: Path, text: str = TOKEN + "\n", mode: int = 0o600) -> Path:
    path = folder / "token"
    path.write_text(text)
    path.chmod(mode)
    return path


def status_with(channel: grpc.Channel, *metadata: tuple[str, str]) -> str:
    """The code that a call gets which carries this."""
    try:
        raw_call(channel, "GetStatus")(b"", timeout=120, metadata=metadata)
    except grpc.RpcError as e:
        return str(e.code().name)
    return "OK"


def test_a_token_is_needed_for_all_but_health(tmp_path: Path) -> None:
    config = write_config(tmp_path, f"listen: 127.0.0.1:0\ntoken_file: {token_file(tmp_path)}\n")
    with service(config) as (process, where), grpc.insecure_channel(where) as channel:
        assert health(channel) == health_pb2.HealthCheckResponse.SERVING
        assert status_with(channel, ("authorization", f"Bearer {TOKEN}")) == "OK"
        refused = [
            (),
            (("authorization", TOKEN),),
            (("authorization", f"bearer {TOKEN}"),),
            (("authorization", f"Bearer {TOKEN[:-1]}"),),
            (("authorization", f"Bearer {TOKEN}x"),),
            (("authorization", f"Bearer {TOKEN}"), ("authorization", f"Bearer {TOKEN}")),
            (("x-authorization", f"Bearer {TOKEN}"),),
        ]
        for metadata in refused:
            assert status_with(channel, *metadata) == "UNAUTHENTICATED", metadata
        for name in ("SubmitProof", "Prove", "CancelProof", "Nothing"):
            with pytest.raises(grpc.RpcError) as error:
                raw_call(channel, name)(b"\xff" * (1 << 20), timeout=120)
            assert error.value.code() is grpc.StatusCode.UNAUTHENTICATED
            assert TOKEN not in str(error.value.details())
        reflect = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"
        with pytest.raises(grpc.RpcError) as error:
            list(stream_call(channel, reflect)(iter([b""]), timeout=120))
        assert error.value.code() is grpc.StatusCode.UNAUTHENTICATED
        process.kill()
        assert process.stderr
        said = process.stderr.read()
        assert "refused Prove: UNAUTHENTICATED" in said and TOKEN not in said
        assert "refused other: UNAUTHENTICATED" in said and "Nothing" not in said


@pytest.mark.parametrize(
    ("text", "mode", "message"),
    [
        (TOKEN, 0o640, "has mode 0640, so others can read or change it"),
        (TOKEN, 0o602, "has mode 0602"),
        ("short", 0o600, "must hold 16 to 4096 printable"),
        ("", 0o600, "must hold 16 to 4096 printable"),
        (TOKEN + " " + TOKEN, 0o600, "must hold 16 to 4096 printable"),
        (TOKEN + "é", 0o600, "must hold 16 to 4096 printable"),
        ("x" * 5000, 0o600, "must hold 16 to 4096 printable"),
    ],
)
def test_a_token_that_is_none(tmp_path: Path, text: str, mode: int, message: str) -> None:
    path = token_file(tmp_path, text, mode)
    with pytest.raises(ConfigError, match=message) as error:
        read_token(path)
    assert not text or text not in str(error.value)


def test_a_token_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="token: No such file"):
        read_token(tmp_path / "token")
    with pytest.raises(ConfigError, match="not a regular file"):
        read_token(tmp_path)


@pytest.mark.parametrize(
    ("text", "target", "local"),
    [
        ("127.0.0.1:9820", "127.0.0.1:9820", True),
        ("127.8.0.1:0", "127.8.0.1:0", True),
        ("localhost:1", "127.0.0.1:1", True),
        ("[::1]:65535", "[::1]:65535", True),
        ("0.0.0.0:9820", "0.0.0.0:9820", False),
        ("[::]:9820", "[::]:9820", False),
        ("10.1.2.3:9820", "10.1.2.3:9820", False),
        ("[::ffff:a01:203]:9820", "[::ffff:a01:203]:9820", False),
        ("unix:///run/x y/zk.sock", "unix:/run/x y/zk.sock", True),
        ("unix:/run/zk.sock", "unix:/run/zk.sock", True),
    ],
)
def test_addresses(text: str, target: str, local: bool) -> None:
    address = parse_address(text)
    assert (address.target.lower(), address.local) == (target, local)
    assert (address.socket is not None) == text.startswith("unix:")


@pytest.mark.parametrize(
    "text",
    [
        *("", ":9820", "9820", "127.0.0.1", "127.0.0.1:65536", "127.0.0.1:-1", "127.0.0.1:1x"),
        *("::1:9820", "[::1]", "[::1%eth0]:1", "1.2.3:4", "01.2.3.4:5", "example.org:9820"),
        *("http://127.0.0.1:9820", "unix://relative", "unix://", "unix:///" + "x" * 120),
        *("127.0.0.1:9820\n", "0x7f.0.0.1:1"),
    ],
)
def test_no_addresses(text: str) -> None:
    with pytest.raises(ConfigError, match="listen: "):
        parse_address(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("listen: 0.0.0.0:9820", "can be reached from other machines; give tls and token_file"),
        ("listen: 0.0.0.0:9820\ntoken_file: t", "give tls and token_file"),
        (
            "listen: 0.0.0.0:9820\ntls: {certificate: c, private_key: k}",
            "give tls and token_file",
        ),
        ("listen: unix:///x\ntls: {certificate: c, private_key: k}", "tls: is for addresses of a"),
        ("tls: {certificate: c}", "tls.private_key: missing"),
        ("limits: {jobs: 0}", "jobs: must be 1 at least"),
        ("limits: {message: 2GiB}", "message: gRPC takes less than 2GiB"),
        ("limits: {drain: 1h}", "limits.drain: '1h' is no duration"),
        ("limits: {job: 1}", "limits.job: unknown key; did you mean limits.jobs"),
        ("device: gpu", "device: must be auto, .* got 'gpu'"),
        ("workers: 0", "workers: must be 1 to"),
        ("socket_access: everybody", "socket_access: must be owner or group or all"),
        ("listenn: 127.0.0.1:1", "unknown key; did you mean listen"),
    ],
)
def test_configs_that_are_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as error:
        load_serve_config(write_config(tmp_path, text + "\n"))
    assert str(tmp_path / "serve.yaml") in str(error.value)


@pytest.mark.parametrize(
    ("circuits", "message"),
    [
        ("[]", "circuits: names none"),
        ("[{kind: window, sector_size: 2KiB}]", r"circuits\[0\].keys: missing"),
        ("[" + "{kind: window, sector_size: 2KiB, keys: dev}, " * 2 + "]", "the same one twice"),
        ("[{kind: window, sector_size: 3KiB, keys: dev}]", r"\[0\]\.sector_size: no .* 3072 bytes"),
    ],
)
def test_circuits_that_are_refused(tmp_path: Path, circuits: str, message: str) -> None:
    path = tmp_path / "serve.yaml"
    path.write_text(f"data: d\ncircuits: {circuits}\n")
    with pytest.raises(ConfigError, match=message):
        load_serve_config(path)


def test_a_config_of_a_circuit(tmp_path: Path) -> None:
    config = load_serve_config(write_config(tmp_path, "vram_limit: 24GiB\nkey_cache: here\n"))
    run = config.run_config(config.circuits[0])
    assert (run.circuit.kind, run.circuit.sector_size, run.keys) == ("winning", 2048, "dev")
    assert (run.device, run.vram_limit, run.key_cache) == ("auto", 24 << 30, tmp_path / "here")


@pytest.mark.parametrize("path", SHIPPED, ids=lambda p: p.name)
def test_configs_that_ship(path: Path) -> None:
    config = load_serve_config(path)
    assert parse_address(config.listen).local
    for circuit in config.circuits:
        assert config.run_config(circuit).device == config.device


def test_every_limit_is_in_a_config_that_ships() -> None:
    text = "".join(path.read_text() for path in SHIPPED)
    for name in LimitConfig.__dataclass_fields__:
        assert f"  {name}: " in text


def test_the_page_says_every_key_and_every_status() -> None:
    page = (HERE.parents[1] / "docs" / "serve.md").read_text()
    for name in ServeConfig.__dataclass_fields__.keys() - {"limits"}:
        assert f"`{name}`" in page
    for name in LimitConfig.__dataclass_fields__:
        assert f"`limits.{name}`" in page
    for cls in (TlsConfig, ServedCircuit):
        assert all(f"`{name}`" in page for name in cls.__dataclass_fields__)
    rows = dict(re.findall(r"^\| `([A-Z_]+)` \| (.*) \|$", page, re.M))
    for error, code in STATUS_CODES.items():
        assert f"`{error.__name__}`" in rows[code.name]
    assert all(f"| `{name}` |" in page for name in method_names())
