"""How soon bad input is refused."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

SECONDS = 2.0


@pytest.fixture
def soon() -> Iterator[None]:
    start = time.monotonic()
    yield
    assert time.monotonic() - start < SECONDS
