"""`python -m torchzk.serve` with an engine that proves nothing: takes the same arguments."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from serving.fake_engine import FakeEngine
from torchzk import serve
from torchzk.serving.engine import Engine
from torchzk.serving.serve_config import ServeConfig


@contextmanager
def open_engine(config: ServeConfig, warn: Callable[[str], None]) -> Iterator[Engine]:
    warn(f"proves nothing of {len(config.circuits)} circuits")
    yield FakeEngine()


if __name__ == "__main__":
    sys.exit(serve.main(open_engine=open_engine))
