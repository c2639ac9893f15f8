"""Calls of a service: where it is, how to show who asks, and errors instead of statuses."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import grpc
from google.protobuf.message import Message

from torchzk import errors
from torchzk.errors import ConfigError, NoProofError, TorchzkError
from torchzk.serving.front import SERVICE
from torchzk.serving.guard import read_token
from torchzk.serving.status_codes import ERRORS
from torchzk.serving.wire import proving_pb2 as wire

DEFAULT = "127.0.0.1:9820"

_MIB = 1 << 20
_OPTIONS: Sequence[tuple[str, int]] = (
    ("grpc.max_send_message_length", 256 * _MIB),
    ("grpc.max_receive_message_length", 256 * _MIB),
    # a call may wait for half an hour with nothing said
    ("grpc.keepalive_time_ms", 60_000),
    ("grpc.keepalive_timeout_ms", 20_000),
)

_Answer = TypeVar("_Answer", bound=Message)


# by words of gRPC's own, which has one status for all of them
_NO_CONNECTION = {
    "CERTIFICATE_VERIFY_FAILED": "its certificate is not one that --ca vouches for",
    "Hostname Verification": "its certificate is for another address than this",
    "WRONG_VERSION_NUMBER": "what answers there does not speak TLS; leave out --ca and https://",
    "Socket closed": "what answers there hangs up; if it speaks TLS, give --ca or https://",
    "reset by peer": "what answers there hangs up; if it speaks TLS, give --ca or https://",
}


@dataclass(frozen=True)
class Service:
    """A service to call."""

    address: str = DEFAULT
    """`HOST:PORT` or `unix:///PATH`; `http://` and `https://` before it are let be."""
    token_file: Path | None = None
    ca: Path | None = None
    """PEM: whoever must vouch for the service. With it, or `https://`, TLS is spoken."""
    certificate: Path | None = None
    """PEM: what this client shows, with its private key."""
    private_key: Path | None = None


class Client:
    """One connection, for any number of threads."""

    def __init__(self, channel: grpc.Channel, address: str, token: str | None) -> None:
        self._channel, self._address = channel, address
        self._metadata = (("authorization", f"Bearer {token}"),) if token else ()

    def call(
        self, name: str, request: Message, answer: type[_Answer], seconds: float | None = None
    ) -> _Answer:
        """One of the eight calls.

        Args:
            name: Such as `SubmitProof`.
            request: Its message.
            answer: The class of what comes back.
            seconds: How long to wait, None for as long as it takes.

        Raises:
            TorchzkError: What the service says, as the error its status stands for.
        """
        made = self._channel.unary_unary(
            f"/{SERVICE}/{name}", type(request).SerializeToString, answer.FromString
        )
        try:
            return made(request, timeout=seconds, metadata=self._metadata)
        except grpc.RpcError as e:
            raise self._error(name, e) from e

    def close(self) -> None:
        """End all calls; whoever waits for one gets an error."""
        self._channel.close()

    def _error(self, name: str, error: grpc.RpcError) -> TorchzkError:
        code = error.code()
        details = str(error.details())
        if code is grpc.StatusCode.UNAVAILABLE and "failed to connect" in details.lower():
            found = [reason for word, reason in _NO_CONNECTION.items() if word in details]
            reason = found[0] if found else "nobody answers there; is the service started?"
            details = f"{reason} ({details})"
        return ERRORS.get(code, TorchzkError)(
            f"{name} at {self._address}: {code.name.lower().replace('_', ' ')}: {details}"
        )


@contextmanager
def connected(service: Service) -> Iterator[Client]:
    """A client of a service, which need not be there yet.

    Raises:
        ConfigError: The address is none, a file cannot be read, or a token would go over a
            network where everybody can read it.
    """
    scheme, _, rest = service.address.rpartition("://")
    if scheme not in ("", "http", "https", "unix"):
        raise ConfigError(f"--address {service.address[:200]}: unknown scheme {scheme[:40]!r}")
    unix = scheme == "unix" or rest.startswith("unix:")
    target = f"unix:{rest.removeprefix('unix:')}" if unix else rest.rstrip("/")
    if not unix and not re.fullmatch(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):\d{1,5}", target):
        raise ConfigError(f"--address {service.address[:200]}: must be HOST:PORT or unix:///PATH")
    token = read_token(service.token_file) if service.token_file else None
    credentials = _credentials(service, scheme)
    if token and credentials is None and not unix and not _is_loopback(target):
        raise ConfigError(
            f"--token-file: {target} is another machine, and without TLS everybody on the way"
            " reads the token; give --ca, or an https:// address"
        )
    # a machine's proxy is for what is beyond it
    options = [*_OPTIONS, ("grpc.enable_http_proxy", 0)] if _is_loopback(target) else _OPTIONS
    with (
        grpc.secure_channel(target, credentials, options)
        if credentials
        else grpc.insecure_channel(target, options)
    ) as channel:
        yield Client(channel, service.address, token)


def _credentials(service: Service, scheme: str) -> grpc.ChannelCredentials | None:
    if (service.certificate is None) != (service.private_key is None):
        raise ConfigError("--certificate and --private-key go together")
    files = (service.ca, service.private_key, service.certificate)
    if not any(files) and scheme != "https":
        return None
    try:
        return grpc.ssl_channel_credentials(*(f.read_bytes() if f else None for f in files))
    except OSError as e:
        raise ConfigError(f"{e.filename}: {e.strerror}") from e


def _is_loopback(target: str) -> bool:
    host = target.rpartition(":")[0].strip("[]")
    with suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"


def proof_of(result: wire.AwaitProofResponse) -> bytes:
    """The proof of a job.

    Raises:
        TorchzkError: It has none: the error it failed with, by its class, or `NoProofError`.
    """
    if result.status == wire.AwaitProofResponse.COMPLETED:
        return result.proof
    name = wire.AwaitProofResponse.Status.Name(result.status).lower()
    message = f"{result.job_id}: {name}: {result.error_message}"
    cls = getattr(errors, result.error_type, NoProofError)
    # one that ends as a fault of ours was the service's, whose log has the rest
    usable = isinstance(cls, type) and issubclass(cls, TorchzkError) and cls.exit_code != 1
    raise (cls if usable else NoProofError)(message)
