"""How soon bad input is refused, and vectors that several modules take."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

SECONDS = 5.0


@pytest.fixture
def soon() -> Iterator[None]:
    # this process's own seconds: what others take of the machine is not counted
    start = time.process_time()
    yield
    assert time.process_time() - start < SECONDS


@pytest.fixture(scope="session")
def porep_graph() -> dict[str, Any]:
    """Parents, replica ids and public inputs that the reference made."""
    path = Path(__file__).parents[1] / "golden" / "porep_graph.json"
    read = json.loads(path.read_text())
    assert isinstance(read, dict)
    return read
