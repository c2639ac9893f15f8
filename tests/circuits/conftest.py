"""How soon bad input is refused."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

SECONDS = 2.0


@pytest.fixture
def soon() -> Iterator[None]:
    # this process's own seconds: what others take of the machine is not counted
    start = time.process_time()
    yield
    assert time.process_time() - start < SECONDS
