"""Which device and which backends this run tests, decided once."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from torchzk.backends import Backend, load_backend

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
GOLDEN = Path(__file__).parent / "golden"
LEFT_OUT = pytest.StashKey[list[str]]()

# where nothing but kernels is tested there may be none
if importlib.util.find_spec("hypothesis"):
    from hypothesis import HealthCheck, settings

    # the same examples in every run, for as long as a loaded machine takes to draw them
    settings.register_profile(
        "suite", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
    )
    settings.load_profile("suite")

# barriers between threads cost more than the small operations of the reference
torch.set_num_threads(1)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--full", action="store_true", help="run the tests marked full as well")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "full(reason): too long for every run; needs --full")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the tests marked full, and say so at the end of the collection."""
    if config.getoption("--full"):
        return
    left_out = [item for item in items if item.get_closest_marker("full")]
    items[:] = [item for item in items if item not in left_out]
    config.hook.pytest_deselected(items=left_out)
    config.stash[LEFT_OUT] = [
        f"needs --full ({marker.args[0]}): {item.nodeid}"
        for item in left_out
        if (marker := item.get_closest_marker("full"))
    ]


def pytest_report_collectionfinish(config: pytest.Config) -> list[str]:
    return config.stash.get(LEFT_OUT, [])


BACKENDS = ["torch"]
if torch.cuda.is_available() and importlib.util.find_spec("triton"):
    BACKENDS.append("triton")


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> Backend:
    """Every backend this run can execute."""
    return load_backend(request.param)


@pytest.fixture(scope="session")
def device() -> torch.device:
    return torch.device(DEVICE)


@pytest.fixture
def golden() -> Path:
    """The folder of vectors."""
    return GOLDEN


@pytest.fixture(scope="session")
def dev_keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where dev keys, and constraints in `blocks`, lie for a whole run: the first makes them."""
    return tmp_path_factory.mktemp("dev_keys")


@pytest.fixture(autouse=True, scope="session")
def patient() -> None:
    """A run's log may take as long as a machine needs that is busy with others."""
    from torchzk.scheduler import sinks

    sinks._PATIENCE = 600.0


@pytest.fixture(autouse=True)
def poison(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Fill every fresh integer tensor with a pattern: unwritten output must look wrong."""
    real_empty, real_like = torch.empty, torch.empty_like

    def fill(out: torch.Tensor) -> torch.Tensor:
        return out.fill_(-1515870811) if out.dtype in (torch.int32, torch.int64) else out

    monkeypatch.setattr(torch, "empty", lambda *a, **k: fill(real_empty(*a, **k)))
    monkeypatch.setattr(torch, "empty_like", lambda *a, **k: fill(real_like(*a, **k)))
    yield
