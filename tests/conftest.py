"""Which device and which backends this run tests, decided once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from torchzk.backends import Backend, load_backend

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
GOLDEN = Path(__file__).parent / "golden"

# barriers between threads cost more than the small operations of the reference
torch.set_num_threads(1)


@pytest.fixture(params=["torch"])
def backend(request: pytest.FixtureRequest) -> Backend:
    """Every backend this run can execute."""
    return load_backend(request.param)


@pytest.fixture
def device() -> torch.device:
    return torch.device(DEVICE)


@pytest.fixture
def golden() -> Path:
    """The folder of vectors."""
    return GOLDEN


@pytest.fixture(autouse=True)
def poison(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Fill every fresh integer tensor with a pattern: unwritten output must look wrong."""
    real_empty, real_like = torch.empty, torch.empty_like

    def fill(out: torch.Tensor) -> torch.Tensor:
        return out.fill_(-1515870811) if out.dtype in (torch.int32, torch.int64) else out

    monkeypatch.setattr(torch, "empty", lambda *a, **k: fill(real_empty(*a, **k)))
    monkeypatch.setattr(torch, "empty_like", lambda *a, **k: fill(real_like(*a, **k)))
    yield
