"""TLS of calls and of pages: certificates that serve, that do not, and who else may speak."""

from __future__ import annotations

import http.client
import ssl
import subprocess
from pathlib import Path

import grpc
import pytest

from fake_devices import watchdog
from serving.durable import rig
from serving.services import service, write_config
from serving.test_guard import TOKEN, status_with, token_file
from serving.test_server import fails, submit
from torchzk import client
from torchzk.errors import ConfigError
from torchzk.serving.guard import server_context
from torchzk.serving.serve_config import ServeConfig, ServedCircuit, TlsConfig
from torchzk.serving.status_server import StatusServer, open_pages

AUTHORITY = """
[ca]
default_ca = of_the_past
[of_the_past]
database = index
serial = serial
new_certs_dir = .
default_md = sha256
policy = any
[any]
commonName = supplied
"""


def openssl(*arguments: str, folder: Path | None = None) -> None:
    subprocess.run(["openssl", *arguments], check=True, capture_output=True, cwd=folder)


def certificate(folder: Path, name: str, *more: str) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1 that vouches for itself, and its key."""
    made = folder / f"{name}.crt", folder / f"{name}.key"
    openssl(
        *("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"),
        *("-nodes", "-days", "2", "-subj", f"/CN={name}"),
        *("-addext", "subjectAltName=IP:127.0.0.1", *more),
        *("-out", str(made[0]), "-keyout", str(made[1])),
    )
    return made


def tls_of(crt: Path, key: Path) -> TlsConfig:
    return TlsConfig(certificate=crt, private_key=key)


def certificate_of(folder: Path, year: int) -> tuple[Path, Path]:
    """One that vouches for itself in January of a year alone."""
    _, key = certificate(folder, "now")
    (folder / "ca.cnf").write_text(AUTHORITY)
    (folder / "index").touch()
    (folder / "serial").write_text("01\n")
    openssl("req", "-new", "-key", str(key), "-subj", "/CN=then", "-out", "csr", folder=folder)
    dates = ("-startdate", f"{year}0101000000Z", "-enddate", f"{year}0131000000Z")
    made = folder / f"{year}.crt"
    openssl(
        *("ca", "-config", "ca.cnf", "-batch", "-selfsign", "-notext", "-in", "csr"),
        *("-keyfile", str(key), *dates, "-out", str(made)),
        folder=folder,
    )
    return made, key


def test_tls_and_token(tmp_path: Path) -> None:
    crt, key = certificate(tmp_path, "server")
    other, _ = certificate(tmp_path, "other")
    text = f"""
        listen: 127.0.0.1:0
        token_file: {token_file(tmp_path)}
        tls: {{certificate: {crt}, private_key: {key}}}
        """
    with service(write_config(tmp_path, text)) as (_, where):
        trusted = grpc.ssl_channel_credentials(crt.read_bytes())
        with grpc.secure_channel(where, trusted) as channel:
            assert status_with(channel, ("authorization", f"Bearer {TOKEN}")) == "OK"
            assert status_with(channel) == "UNAUTHENTICATED"
        with grpc.insecure_channel(where) as channel:
            assert status_with(channel) == "UNAVAILABLE"
        strange = grpc.ssl_channel_credentials(other.read_bytes())
        with grpc.secure_channel(where, strange) as channel:
            assert status_with(channel) == "UNAVAILABLE"


def test_clients_may_have_to_show_a_certificate(tmp_path: Path) -> None:
    crt, key = certificate(tmp_path, "server")
    client, client_key = certificate(tmp_path, "client")
    text = f"""
        listen: 127.0.0.1:0
        tls: {{certificate: {crt}, private_key: {key}, client_ca: {client}}}
        """
    with service(write_config(tmp_path, text)) as (_, where):
        known = grpc.ssl_channel_credentials(
            crt.read_bytes(), client_key.read_bytes(), client.read_bytes()
        )
        with grpc.secure_channel(where, known) as channel:
            assert submit(channel, b"prove") == "prove"
        unknown = grpc.ssl_channel_credentials(crt.read_bytes())
        with grpc.secure_channel(where, unknown) as channel:
            assert status_with(channel) == "UNAVAILABLE"


def test_tls_that_cannot_be_used(tmp_path: Path) -> None:
    crt, key = certificate(tmp_path, "server")
    _, other = certificate(tmp_path, "other")
    key.with_suffix(".bad").write_text("no key")
    for pair in ((crt, other), (crt, key.with_suffix(".bad")), (crt, tmp_path / "none")):
        text = f"listen: 127.0.0.1:0\ntls: {{certificate: {pair[0]}, private_key: {pair[1]}}}\n"
        said = fails(write_config(tmp_path, text))
        assert f"tls: {crt} and {pair[1]} cannot be used" in said


def test_certificates_that_no_client_would_take(tmp_path: Path) -> None:
    server_context(tls_of(*certificate(tmp_path, "good")))
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    for made, words in (
        (certificate_of(tmp_path / "a", 2020), "certificate has expired"),
        # as far as OpenSSL's dates go
        (certificate_of(tmp_path / "b", 2099), "certificate is not yet valid"),
        (certificate(tmp_path, "c", "-addext", "extendedKeyUsage=clientAuth"), "purpose"),
    ):
        with pytest.raises(ConfigError, match=f"tls: {made[0]}: .*{words}"):
            server_context(tls_of(*made))
    crt, key = tmp_path / "a" / "2020.crt", tmp_path / "a" / "now.key"
    text = f"listen: 127.0.0.1:0\ntls: {{certificate: {crt}, private_key: {key}}}\n"
    assert f"tls: {crt}: certificate has expired" in fails(write_config(tmp_path, text))


def test_the_client_says_what_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    crt, key = certificate(tmp_path, "server")
    other, _ = certificate(tmp_path, "other")
    token = token_file(tmp_path)
    wrong = tmp_path / "wrong"
    wrong.write_text("x" * 20)
    wrong.chmod(0o600)
    text = f"""
        listen: 127.0.0.1:0
        token_file: {token}
        tls: {{certificate: {crt}, private_key: {key}}}
        """
    with service(write_config(tmp_path, text)) as (_, where):
        for code, words, flags in (
            (0, "", ["--ca", crt, "--token-file", token]),
            (2, "unauthenticated: send the service's token", ["--ca", crt]),
            (2, "unauthenticated: send the service's token", ["--ca", crt, "--token-file", wrong]),
            (6, "if it speaks TLS, give --ca or https://", ["--token-file", token]),
            (6, "its certificate is not one that --ca vouches for", ["--ca", other]),
        ):
            assert client.main(["status", "-a", where, *map(str, flags)]) == code, words
            assert words in capsys.readouterr().err
        named = where.replace("127.0.0.1", "localhost")
        assert client.main(["status", "-a", named, "--ca", str(crt)]) == 6
        assert "its certificate is for another address" in capsys.readouterr().err
    with service(write_config(tmp_path)) as (_, where):
        assert client.main(["status", "-a", where, "--ca", str(crt)]) == 6
        assert "what answers there does not speak TLS" in capsys.readouterr().err


def pages_of(server: StatusServer, context: ssl.SSLContext, path: str, **headers: str) -> int:
    """The status of a page, asked for on this machine; raises `ssl.SSLError`."""
    port = int(server.url.rpartition(":")[2])
    connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=120, context=context)
    try:
        connection.request("GET", path, headers=headers)
        return connection.getresponse().status
    finally:
        connection.close()


def test_pages_on_a_network(tmp_path: Path) -> None:
    crt, key = certificate(tmp_path, "server")
    ours, ours_key = certificate(tmp_path, "ours")
    config = ServeConfig(
        circuits=(ServedCircuit(kind="window", sector_size=2048, keys="dev"),),
        data=tmp_path,
        status_listen="0.0.0.0:0",
        token_file=token_file(tmp_path),
        tls=TlsConfig(certificate=crt, private_key=key, client_ca=ours),
    )
    said = {"authorization": f"Bearer {TOKEN}"}
    trusting = ssl.create_default_context(cafile=str(crt))
    strange = ssl.create_default_context(cafile=str(ours))
    with (
        watchdog(),
        rig(tmp_path / "data") as made,
        open_pages(config, made.engine, lambda _: None) as server,
    ):
        assert server is not None and server.url.startswith("https://")
        with pytest.raises((ssl.SSLError, ConnectionError)):
            # shows no certificate
            pages_of(server, trusting, "/healthz", **said)
        trusting.load_cert_chain(ours, ours_key)
        for path in ("/status", "/metrics"):
            assert pages_of(server, trusting, path) == 401
            assert pages_of(server, trusting, path, authorization="Bearer wrong") == 401
            assert pages_of(server, trusting, path, **said) == 200
        assert pages_of(server, trusting, "/readyz") == 200
        with pytest.raises(ssl.SSLCertVerificationError):
            pages_of(server, strange, "/status", **said)
        port = int(server.url.rpartition(":")[2])
        plain = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        with pytest.raises((http.client.HTTPException, ConnectionError)):
            plain.request("GET", "/status", headers=said)
            plain.getresponse()
        plain.close()
        # and nobody who could not speak keeps others out
        assert pages_of(server, trusting, "/healthz") == 200
