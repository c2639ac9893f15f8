"""HTTP requests to the pages of a service, by the server's own handler, without a socket."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

from fuzz.target import Read, Target
from serving.fake_engine import FakeEngine
from torchzk.serving.status_server import StatusServer

TOKEN = "a-token-of-26-characters-x"
PATHS = ("/", "/status", "/metrics", "/healthz", "/readyz", "/nothing")
STATUSES = (b"200", b"400", b"401", b"403", b"404", b"414", b"431", b"501", b"503", b"505")


class Connection:
    """Sends the request, and keeps what is answered."""

    def __init__(self, raw: bytes) -> None:
        self._raw = raw
        self.answer = b""

    def makefile(self, *_: object) -> io.BytesIO:
        return io.BytesIO(self._raw)

    def sendall(self, data: bytes) -> None:
        self.answer += bytes(data)

    def settimeout(self, _: float) -> None:
        """Nobody waits."""


@contextmanager
def open_pages(_: Path) -> Iterator[Read]:
    def fault(error: BaseException) -> NoReturn:
        raise AssertionError(error)

    pages: Any = StatusServer(FakeEngine(), "127.0.0.1:0", token=TOKEN, on_error=fault)
    server = pages._server

    def read(data: bytes) -> None:
        connection = Connection(data)
        server.RequestHandlerClass(connection, ("127.0.0.1", 1), server)
        head, _, body = connection.answer.partition(b"\r\n\r\n")
        # version 0.9 of the protocol has no head, and no way to say who asks
        secret = b"torchzk_jobs" in connection.answer or b'"uptime' in connection.answer
        assert not secret or f"Bearer {TOKEN}".encode() in data
        assert len(connection.answer) < 1 << 20
        if head.startswith(b"HTTP/"):
            assert head.split()[1] in STATUSES

    try:
        yield read
    finally:
        server.server_close()


def page_requests() -> Iterator[bytes]:
    for path in PATHS:
        for host in ("127.0.0.1:9821", "localhost", "evil.example", "[::1]:1"):
            yield f"GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode()
        head = f"HEAD {path}?x HTTP/1.0\r\nhost: 127.3.4.5\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"
        yield head.encode()
        yield head.replace("HEAD", "GET").encode()
        yield f"GET {path}\r\n".encode()
    yield from (b"", b"\r\n", b"POST / HTTP/1.1\r\n\r\n", b"GET //status HTTP/1.1\r\n\r\n")
    yield b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 200 + b"\r\n"
    yield "GET /status HTTP/1.1\r\nauthorization: Bearer é\r\n\r\n".encode()


TARGETS = (
    Target(
        name="pages",
        open=open_pages,
        seeds=page_requests,
        errors=(),
        tokens=(
            *(b"GET ", b"HEAD ", b" HTTP/1.1\r\n", b" HTTP/0.9\r\n", b"\r\n\r\n", b"Host: "),
            *(
                b"authorization: Bearer ",
                b"Expect: 100-continue\r\n",
                b"Connection: keep-alive\r\n",
            ),
            *(
                b"/status",
                b"/metrics",
                b"?",
                b"%2f",
                b"../",
                b"\r\n ",
                b"Content-Length: 99999\r\n",
            ),
        ),
        longest=1 << 12,
        # the page itself
        spare=1 << 22,
    ),
)
