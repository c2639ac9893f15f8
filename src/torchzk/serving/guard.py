"""Who may call: the token, and nobody else where there is one.

It is looked at before a byte of a request is read.
"""

from __future__ import annotations

import hmac
import ssl
import stat
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc

from torchzk.errors import ConfigError
from torchzk.serving.serve_config import TlsConfig
from torchzk.small_files import read_small

_HEALTH = "/grpc.health.v1.Health/"
_SHORTEST = 16

if TYPE_CHECKING:
    Handler = grpc.RpcMethodHandler[Any, Any]


class TokenGuard(grpc.aio.ServerInterceptor):
    """Refuses calls without the token. Health can be asked by anybody, and says yes or no."""

    def __init__(self, token: str, refused: Callable[[str, grpc.StatusCode], None]) -> None:
        self._wanted = f"Bearer {token}".encode()
        self._refused = refused

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Handler | None]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Handler | None:
        method = _text(handler_call_details.method)
        if method.startswith(_HEALTH) or self._has_token(handler_call_details):
            return await continuation(handler_call_details)
        self._refused(method.rpartition("/")[2], grpc.StatusCode.UNAUTHENTICATED)
        return grpc.stream_stream_rpc_method_handler(_refuse)

    def _has_token(self, call: grpc.HandlerCallDetails) -> bool:
        said = [v for k, v in call.invocation_metadata or () if _text(k) == "authorization"]
        return len(said) == 1 and hmac.compare_digest(_text(said[0]).encode(), self._wanted)


async def _refuse(_: object, context: grpc.aio.ServicerContext[Any, Any]) -> None:
    await context.abort(
        grpc.StatusCode.UNAUTHENTICATED, "send the service's token as authorization: Bearer TOKEN"
    )


def _text(value: str | bytes) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else value


def read_token(path: Path) -> str:
    """The token in a file, which nobody else may read.

    Raises:
        ConfigError: There is no such file, others can read it, or it holds no token.
    """
    try:
        status, raw = path.stat(), read_small(path, 4096)
    except OSError as e:
        raise ConfigError(f"token_file: {path}: {e.strerror}") from e
    if status.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise ConfigError(
            f"token_file: {path} has mode {stat.S_IMODE(status.st_mode):04o}, so others can read"
            " or change it; chmod 600"
        )
    token = raw.strip().decode("ascii", "replace")
    if not (_SHORTEST <= len(token) <= 4096 and all("!" <= c <= "~" for c in token)):
        raise ConfigError(
            f"token_file: {path} must hold {_SHORTEST} to 4096 printable ASCII characters without"
            " spaces"
        )
    return token


def server_credentials(tls: TlsConfig) -> grpc.ServerCredentials:
    """What `server_context` finds in order, for gRPC; raises as it does."""
    server_context(tls)
    roots = tls.client_ca.read_bytes() if tls.client_ca else None
    pair = (tls.private_key.read_bytes(), tls.certificate.read_bytes())
    return grpc.ssl_server_credentials([pair], roots, require_client_auth=roots is not None)


def server_context(tls: TlsConfig) -> ssl.SSLContext:
    """Certificate and key, found to belong together and to be of use to a client today.

    Raises:
        ConfigError: One cannot be read, they do not belong together, or no client would take the
            certificate now: it has expired, is not valid yet, or is none of a server.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(tls.certificate, tls.private_key, password="")
        _shake_hands(context, tls.certificate)
        if tls.client_ca:
            context.load_verify_locations(tls.client_ca)
            context.verify_mode = ssl.CERT_REQUIRED
    except ssl.SSLCertVerificationError as e:
        raise ConfigError(f"tls: {tls.certificate}: {e.verify_message}") from e
    except OSError as e:
        raise ConfigError(
            f"tls: {tls.certificate} and {tls.private_key} cannot be used: {e.strerror or e}"
        ) from e
    return context


def _shake_hands(server: ssl.SSLContext, certificate: Path) -> None:
    """Do so with a client that trusts this very certificate, and so looks at all but who signed it.

    Raises `ssl.SSLError`.
    """
    begin, end = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"
    _, _, rest = certificate.read_text("latin-1").partition(begin)
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname = False
    client.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    client.load_verify_locations(cadata=begin + rest.partition(end)[0] + end)
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = server.wrap_bio(to_server, to_client, server_side=True)
    theirs = client.wrap_bio(to_client, to_server)
    for side in (theirs, ours, theirs):
        with suppress(ssl.SSLWantReadError):
            side.do_handshake()
