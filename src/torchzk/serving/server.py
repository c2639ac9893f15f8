"""A server from its first byte to its last: bound, guarded, healthy, drained.

The first SIGTERM or SIGINT drains: no more jobs are taken, those that run go on for a while, who
waits is answered. The second ends the process at once; what was accepted is on disk.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import stat
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import grpc
from grpc_health.v1 import health, health_pb2
from grpc_health.v1 import health_pb2_grpc as health_grpc
from grpc_reflection.v1alpha import reflection

from torchzk.errors import ConfigError
from torchzk.serving.engine import Engine
from torchzk.serving.front import SERVICE, Front, method_names
from torchzk.serving.guard import TokenGuard, read_token, server_credentials
from torchzk.serving.serve_config import Address, LimitConfig, ServeConfig, parse_address

_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_HEALTH_PERIOD = 2.0
_MASKS = {"owner": 0o177, "group": 0o117, "all": 0o111}


def _nothing(*_: object) -> None:
    """The listener that nobody gave."""


class Server:
    """An engine's gRPC server. Made and run within one event loop."""

    def __init__(
        self,
        config: ServeConfig,
        engine: Engine,
        report: Callable[[str], None],
    ) -> None:
        """
        Args:
            config: Where it listens, who may call, how much is taken.
            engine: Has the jobs.
            report: Told what an operator should know, faults of ours among it.

        Raises:
            ConfigError: Token or certificate cannot be used.
        """
        self._config, self._engine, self._report = config, engine, report
        self._address = parse_address(config.listen)
        guards: list[grpc.aio.ServerInterceptor] = []
        if config.token_file is not None:
            guards.append(TokenGuard(read_token(config.token_file), self._count))
        self._front = Front(engine, config.limits, report)
        self._server = grpc.aio.server(
            handlers=[self._front.handlers()],
            interceptors=guards,
            options=_options(config.limits),
            maximum_concurrent_rpcs=config.limits.calls,
        )
        self._health: Any = health.aio.HealthServicer()
        health_grpc.add_HealthServicer_to_server(self._health, self._server)
        names = (SERVICE, health.SERVICE_NAME, reflection.SERVICE_NAME)
        reflection.enable_server_reflection(names, self._server)

    def _count(self, method: str, code: grpc.StatusCode) -> None:
        """A call that the guard refuses; what is none of ours has no name of its own."""
        self._engine.refused(method if method in method_names() else "other", code.name)

    async def start(self) -> str:
        """Listen, and return where, as a client is told it.

        Raises:
            ConfigError: Somebody else listens there, or we may not.
        """
        await self._set_health()
        where = _bind(self._server, self._address, self._config)
        await self._server.start()
        return where

    async def run(self, started: Callable[[str], None] = _nothing) -> int:
        """Serve until a signal comes, then drain.

        Args:
            started: Told where it listens.

        Returns:
            How many jobs are left for the next start.
        """
        asked = _watch_signals()
        started(await self.start())
        refresh = asyncio.create_task(self._keep_health())
        try:
            await asked.wait()
        finally:
            refresh.cancel()
        self._report(f"stops: jobs that run may go on for {self._config.limits.drain:g} s")
        return await self.drain()

    async def drain(self) -> int:
        """Take no more jobs, let those end that run, answer who waits, and stop listening."""
        await asyncio.to_thread(self._engine.drain)
        await self._health.enter_graceful_shutdown()
        left = await asyncio.to_thread(self._engine.close, self._config.limits.drain)
        # what has ended goes out before what has not is refused
        await asyncio.sleep(0.05)
        self._front.stop()
        await self._server.stop(grace=2.0)
        if self._address.socket is not None:
            self._address.socket.unlink(missing_ok=True)
        return left

    async def _keep_health(self) -> None:
        while True:
            await asyncio.sleep(_HEALTH_PERIOD)
            await self._set_health()

    async def _set_health(self) -> None:
        try:
            ready = (await asyncio.to_thread(self._engine.status)).ready
        except Exception as e:
            self._report(f"has no status: {type(e).__name__}: {e}")
            ready = False
        word = health_pb2.HealthCheckResponse
        for name in ("", SERVICE):
            await self._health.set(name, word.SERVING if ready else word.NOT_SERVING)


def check_credentials(config: ServeConfig) -> None:
    """Raise `ConfigError` where token or certificate cannot be used, before anything is loaded."""
    if config.token_file is not None:
        read_token(config.token_file)
    if config.tls is not None:
        server_credentials(config.tls)


def check_free(config: ServeConfig) -> None:
    """Raise `ConfigError` where another process listens, before keys are loaded for minutes."""
    for key, listen in (("listen", config.listen), ("status_listen", config.status_listen)):
        address = parse_address(listen or "127.0.0.1:0")
        if address.socket is not None:
            _make_way(address.socket)
            continue
        host, _, port = address.target.rpartition(":")
        host = host.strip("[]")
        with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
            # what a service that just ended has left is in nobody's way
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((host, int(port)))
            except OSError as e:
                raise ConfigError(_taken(key, listen)) from e


def _taken(key: str, listen: str | None) -> str:
    return (
        f"{key}: cannot listen on {listen}: another process does, or the address is"
        " not this machine's"
    )


def _options(limits: LimitConfig) -> Sequence[tuple[str, int]]:
    return (
        ("grpc.max_receive_message_length", limits.message),
        ("grpc.max_send_message_length", limits.message),
        # two services on one port would share its calls
        ("grpc.so_reuseport", 0),
        # a client that is gone is noticed; one that asks whether we are is not scolded
        ("grpc.keepalive_time_ms", 60_000),
        ("grpc.keepalive_timeout_ms", 20_000),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
        ("grpc.http2.max_ping_strikes", 0),
    )


def _watch_signals() -> asyncio.Event:
    """Set by the first signal; the second does what it does to any process."""
    asked, loop = asyncio.Event(), asyncio.get_running_loop()

    def stop() -> None:
        for number in _SIGNALS:
            loop.remove_signal_handler(number)
            signal.signal(number, signal.SIG_DFL)
        asked.set()

    for number in _SIGNALS:
        loop.add_signal_handler(number, stop)
    return asked


def _bind(server: grpc.aio.Server, address: Address, config: ServeConfig) -> str:
    credentials = server_credentials(config.tls) if config.tls else None
    if address.socket is not None:
        _make_way(address.socket)
    # only the process has a mask; it is set back before anything else can make a file
    before = os.umask(_MASKS[config.socket_access]) if address.socket else None
    try:
        if credentials is None:
            port = server.add_insecure_port(address.target)
        else:
            port = server.add_secure_port(address.target, credentials)
    except RuntimeError as e:
        raise ConfigError(_taken("listen", config.listen)) from e
    finally:
        if before is not None:
            os.umask(before)
    if address.socket is not None:
        return f"unix://{address.socket}"
    return f"{address.target.rpartition(':')[0]}:{port}"


def _make_way(path: Path) -> None:
    """Remove the socket of a service that is dead.

    Raises:
        ConfigError: It lives, or the file is something else.
    """
    try:
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise ConfigError(f"listen: {path} is there and is no socket; name another")
    except FileNotFoundError:
        if not path.parent.is_dir():
            raise ConfigError(f"listen: there is no folder {path.parent}") from None
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(2.0)
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            with suppress(FileNotFoundError):
                path.unlink()
            return
        except OSError as e:
            raise ConfigError(f"listen: {path}: {e.strerror or 'no answer'}") from e
    raise ConfigError(f"listen: another service answers on {path}")
