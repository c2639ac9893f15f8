"""Serve proofs: `python -m torchzk.serve --config serve.yaml`.

The first line on stdout is where it listens. SIGTERM or SIGINT drains it, a second one ends it.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

from torchzk import cli
from torchzk.serving.engine import Engine
from torchzk.serving.serve_config import ServeConfig, load_serve_config

OpenEngine = Callable[[ServeConfig, Callable[[str], None]], AbstractContextManager[Engine]]
"""Opens what a config serves, told whom to warn."""


def _parser() -> cli.Parser:
    parser = cli.Parser("torchzk.serve", "Serve proofs to clients that speak cuzk.v1.")
    parser.add_argument("--config", required=True, metavar="FILE", help="YAML")
    parser.add_argument(
        "--check-config", action="store_true", help="read the config and what it names, and stop"
    )
    return parser


def _open_engine(
    config: ServeConfig, warn: Callable[[str], None]
) -> AbstractContextManager[Engine]:
    # late: what is wrong with a config is said without waiting for torch
    from torchzk.serving.open_engine import open_engine

    return open_engine(config, warn)


def command(open_engine: OpenEngine) -> cli.Command:
    """The command that serves what `open_engine` opens."""

    def serve(args: argparse.Namespace, screen: cli.Screen) -> cli.Report:
        # late: what it needs is not installed everywhere, and --help is
        from torchzk.serving.server import check_credentials, check_free

        config = load_serve_config(args.config)
        check_credentials(config)
        if args.check_config:
            circuits = [circuit.name for circuit in config.circuits]
            screen.answer(f"would listen on {config.listen}, and serve {', '.join(circuits)}")
            return {"listen": config.listen, "circuits": circuits}
        check_free(config)
        with open_engine(config, screen.warn) as engine:
            return asyncio.run(_serve(config, engine, screen))

    return serve


async def _serve(config: ServeConfig, engine: Engine, screen: cli.Screen) -> cli.Report:
    # late: torch is loaded with it, which a fault in the config need not wait for
    from torchzk.serving.server import Server
    from torchzk.serving.status_server import open_pages

    where = ""

    def started(address: str) -> None:
        nonlocal where
        where = address
        screen.line(f"listens on {address}")
        if not screen.json:
            print(address, flush=True)

    def failed(error: BaseException) -> None:
        screen.line(f"cannot say how it is: {type(error).__name__}: {error}")

    server = Server(config, engine, report=screen.line)
    with open_pages(config, engine, failed) as pages:
        if pages is not None:
            screen.line(f"shows itself on {pages.url}")
        left = await server.run(started)
    if left:
        screen.warn(f"{left} jobs have not ended; they go on at the next start")
    return {"listen": where, "jobs_left": left}


def main(argv: Sequence[str] | None = None, open_engine: OpenEngine = _open_engine) -> int:
    """Run the command; returns its exit code."""
    return cli.execute(_parser(), command(open_engine), argv)


def run() -> None:
    """The installed command."""
    sys.exit(main())


if __name__ == "__main__":
    run()
