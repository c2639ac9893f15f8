"""A small HTTP server: `/metrics`, `/status`, `/healthz`, `/readyz`, and a page that shows it live.

It reads requests without bodies and answers from memory. Nobody on another machine is answered
without TLS and the token, and no page of another site can read what it says.
"""

from __future__ import annotations

import hmac
import json
import re
import secrets
import socket
import ssl
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cache
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from types import TracebackType
from typing import Any

import torchzk
from torchzk.errors import ConfigError
from torchzk.serving.engine import Engine
from torchzk.serving.guard import read_token, server_context
from torchzk.serving.serve_config import ServeConfig, parse_address
from torchzk.serving.status_json import status_json

_PATIENCE = 10.0
"""Seconds that a client may keep a thread waiting."""
_MOST_CALLS = 32
_PLAIN = "text/plain; charset=utf-8"
_METRICS = "text/plain; version=0.0.4; charset=utf-8"


@dataclass(frozen=True)
class _Answer:
    status: HTTPStatus
    body: bytes
    kind: str = _PLAIN
    policy: str = "default-src 'none'; frame-ancestors 'none'"


class StatusServer:
    """The pages of an engine. Use it in a `with`."""

    def __init__(
        self,
        engine: Engine,
        listen: str,
        *,
        token: str | None = None,
        tls: ssl.SSLContext | None = None,
        on_error: Callable[[BaseException], None] = lambda _: None,
    ) -> None:
        """Bind, without answering yet.

        Args:
            engine: Whose pages.
            listen: `ADDRESS:PORT`; port 0 takes any.
            token: What `/metrics` and `/status` want as `authorization: Bearer TOKEN`.
            tls: Certificate and key.
            on_error: Gets what an engine raises when it is asked.

        Raises:
            ConfigError: It is no such address, is taken, or lacks TLS or token.
        """
        address = parse_address(listen)
        if address.socket is not None:
            raise ConfigError(f"status_listen: {listen} must be ADDRESS:PORT")
        if not address.local and (token is None or tls is None):
            raise ConfigError(
                f"status_listen: {listen} can be reached from other machines; give tls and "
                "token_file, or listen on 127.0.0.1"
            )
        host, _, port = address.target.rpartition(":")
        pages = Pages(engine, token, on_error)
        try:
            self._server = _HttpServer((host.strip("[]"), int(port)), pages, address.local, tls)
        except OSError as e:
            raise ConfigError(f"status_listen: cannot listen on {listen}: {e.strerror}") from e
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.1,), name="status server", daemon=True
        )
        scheme = "http" if tls is None else "https"
        self.url = f"{scheme}://{host}:{self._server.server_address[1]}"

    def __enter__(self) -> StatusServer:
        self._thread.start()
        return self

    def __exit__(
        self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def open_pages(
    config: ServeConfig, engine: Engine, on_error: Callable[[BaseException], None]
) -> AbstractContextManager[StatusServer | None]:
    """The pages that a config asks for, if it does; arguments and errors as `StatusServer`."""
    if config.status_listen is None:
        return nullcontext()
    token = None if config.token_file is None else read_token(config.token_file)
    tls = None
    # on this machine nobody needs a certificate to look
    if config.tls is not None and not parse_address(config.status_listen).local:
        tls = server_context(config.tls)
    return StatusServer(engine, config.status_listen, token=token, tls=tls, on_error=on_error)


class Pages:
    """What is answered, by path."""

    def __init__(
        self, engine: Engine, token: str | None, on_error: Callable[[BaseException], None]
    ) -> None:
        self._engine, self._token, self._on_error = engine, token, on_error

    def answer(self, path: str, authorization: str) -> _Answer:
        """The answer to a request; never raises."""
        page = {
            "/": self._live,
            "/healthz": lambda: _Answer(HTTPStatus.OK, b"ok\n"),
            "/readyz": self._ready,
            "/status": self._status,
            "/metrics": self._metrics,
        }.get(path.partition("?")[0])
        if page is None:
            return _Answer(HTTPStatus.NOT_FOUND, b"there is no such page\n")
        if path.startswith(("/status", "/metrics")) and not self._may(authorization):
            return _Answer(HTTPStatus.UNAUTHORIZED, b"send authorization: Bearer TOKEN\n")
        try:
            return page()
        except Exception as error:
            self._on_error(error)
            # the inside is nobody's business; the log has it
            return _Answer(HTTPStatus.SERVICE_UNAVAILABLE, b"cannot be said now\n")

    def _may(self, authorization: str) -> bool:
        if self._token is None:
            return True
        return hmac.compare_digest(authorization.encode(), f"Bearer {self._token}".encode())

    def _ready(self) -> _Answer:
        if self._engine.status().ready:
            return _Answer(HTTPStatus.OK, b"ready\n")
        return _Answer(HTTPStatus.SERVICE_UNAVAILABLE, b"takes no jobs\n")

    def _status(self) -> _Answer:
        body = json.dumps(status_json(self._engine)).encode()
        return _Answer(HTTPStatus.OK, body, "application/json")

    def _metrics(self) -> _Answer:
        return _Answer(HTTPStatus.OK, self._engine.metrics().encode(), _METRICS)

    def _live(self) -> _Answer:
        nonce = secrets.token_urlsafe(16)
        policy = (
            f"default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; "
            "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
            "frame-ancestors 'none'"
        )
        body = _page().replace("NONCE", nonce).encode()
        return _Answer(HTTPStatus.OK, body, "text/html; charset=utf-8", policy)


@cache
def _page() -> str:
    return (files(torchzk) / "serving" / "live_page.html").read_text("utf-8")


class _HttpServer(ThreadingHTTPServer):
    daemon_threads = True
    # a restart must not wait for the last client's packets
    allow_reuse_address = True

    def __init__(
        self, where: tuple[str, int], pages: Pages, local: bool, tls: ssl.SSLContext | None
    ) -> None:
        self.address_family = _family(where[0])
        super().__init__(where, _Handler)
        self.pages, self.local, self._tls = pages, local, tls
        self._places = threading.BoundedSemaphore(_MOST_CALLS)

    def process_request(self, request: Any, client_address: Any) -> None:
        """A thread for a call, unless there are too many: then it is closed unanswered."""
        if not self._places.acquire(blocking=False):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """In the call's own thread; the handshake too, so that nobody else waits for it."""
        try:
            request.settimeout(_PATIENCE)
            if self._tls is not None:
                request = self._tls.wrap_socket(request, server_side=True)
            super().process_request_thread(request, client_address)
        except OSError:
            self.shutdown_request(request)
        finally:
            self._places.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Nothing: clients come and go."""


class _Handler(BaseHTTPRequestHandler):
    timeout = _PATIENCE
    server_version = "torchzk"
    sys_version = ""

    def do_GET(self) -> None:  # noqa: N802 - the library's name
        """Answer."""
        self._send(with_body=True)

    def do_HEAD(self) -> None:  # noqa: N802 - the library's name
        """Answer without a body."""
        self._send(with_body=False)

    def _send(self, *, with_body: bool) -> None:
        server = self.server
        assert isinstance(server, _HttpServer)
        if server.local and not _is_local_name(self.headers.get("host", "")):
            # a name of another site that was made to stand for this machine
            answer = _Answer(HTTPStatus.FORBIDDEN, b"ask by this machine's own name\n")
        else:
            said = self.headers.get("authorization", "")
            answer = server.pages.answer(self.path, said)
        self.send_response(answer.status)
        self.send_header("content-type", answer.kind)
        self.send_header("content-length", str(len(answer.body)))
        self.send_header("content-security-policy", answer.policy)
        self.send_header("x-content-type-options", "nosniff")
        self.send_header("referrer-policy", "no-referrer")
        self.send_header("cache-control", "no-store")
        if answer.status is HTTPStatus.UNAUTHORIZED:
            self.send_header("www-authenticate", "Bearer")
        self.end_headers()
        if with_body:
            self.wfile.write(answer.body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the library's name
        """Nothing: who asks for metrics does so for ever."""


def _is_local_name(host: str) -> bool:
    name = host if host.endswith("]") else host.rpartition(":")[0] or host
    known = ("localhost", "[::1]", "")
    return name in known or re.fullmatch(r"127(\.[0-9]{1,3}){3}", name) is not None


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET
