"""A service with an engine that proves nothing, as a process: `python fake_service.py CONFIG`.

Its first line on stdout is where it listens, its last how many jobs are left.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from serving.fake_engine import FakeEngine
from torchzk.serving.serve_config import load_serve_config
from torchzk.serving.server import Server


async def serve(config: Path) -> int:
    server = Server(
        load_serve_config(config),
        FakeEngine(),
        report=lambda text: print(text, file=sys.stderr, flush=True),
    )
    return await server.run(started=lambda where: print(where, flush=True))


if __name__ == "__main__":
    print(f"{asyncio.run(serve(Path(sys.argv[1])))} left", flush=True)
