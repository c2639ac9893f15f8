"""No worker ever waits for all streams of a device: neither in what it says nor in what it does."""

from __future__ import annotations

import ast
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from fake_devices import FakeDevice, FakeJob, Referee, Script, watchdog
from scheduler.small_proofs import small_site
from torchzk import api
from torchzk.scheduler import workers
from torchzk.scheduler.locks import FairLock
from torchzk.scheduler.memory_budget import MemoryBudget
from torchzk.scheduler.policies import POLICIES, Policy
from torchzk.scheduler.service import DeviceSetup, Service
from torchzk.scheduler.work import JobState

PACKAGE = Path(workers.__file__).parents[1]
LOOP = (
    "scheduler/service.py",
    "scheduler/workers.py",
    "scheduler/worker_device.py",
    "scheduler/proof_work.py",
    "scheduler/proof_service.py",
)
"""Where a worker's loop begins; whatever these import is part of it."""
ALLOWED = {
    # what those named below call
    ("captures.py", "empty_cache", "empty_cache"),
    # by `_make_room`, under the mem lock
    ("scheduler/worker_device.py", "trim", "empty_cache"),
    # where memory ran out, or before the first plan is made: nothing goes on as it was
    ("backends.py", "forget_tables", "synchronize"),
    ("backends.py", "forget_tables", "empty_cache"),
    ("scheduler/device_budget.py", "half_of_the_rest", "empty_cache"),
    # before a witness is captured, once a session
    ("scheduler/witness_graph.py", "_make_room", "empty_cache"),
    # of a key that is let go
    ("groth16/host_key.py", "_unpin", "synchronize"),
}
"""The places that may, and why: in no partition that goes as planned."""
DEVICE_WIDE = {"cuda", "accelerator"}
"""Modules of torch whose `synchronize` waits for a whole device."""


def waits(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Lines that wait for a whole device, or empty its cache, whatever name they use for it."""
    modules = set(DEVICE_WIDE)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            source = (node.module or "") if isinstance(node, ast.ImportFrom) else ""
            for alias in node.names:
                full = f"{source}.{alias.name}".strip(".")
                if full in {f"torch.{name}" for name in DEVICE_WIDE}:
                    modules.add(alias.asname or alias.name)
                ours = full.startswith(("torch.", "torchzk.captures."))
                if ours and alias.name in ("synchronize", "empty_cache"):
                    yield node.lineno, alias.name
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            base = ast.unparse(node.value).split(".")[-1]
            if node.attr == "empty_cache" or (node.attr == "synchronize" and base in modules):
                yield node.lineno, node.attr
        elif isinstance(node, ast.Constant) and node.value in ("synchronize", "empty_cache"):
            yield node.lineno, str(node.value)


def loop_modules() -> list[Path]:
    """The modules of a worker's loop: the first ones and all that they import of the package."""
    found: list[Path] = []
    left = [PACKAGE / name for name in LOOP]
    while left:
        path = left.pop()
        if path in found:
            continue
        found.append(path)
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("torchzk"):
                inside = PACKAGE.joinpath(*(node.module or "").split(".")[1:])
                candidates = [inside / f"{alias.name}.py" for alias in node.names]
                left += [p for p in (inside.with_suffix(".py"), *candidates) if p.exists()]
    return found


def test_no_module_of_a_workers_loop_says_it() -> None:
    names = {path.stem for path in loop_modules()}
    assert names >= {
        "locks",
        "memory_budget",
        "partition_run",
        "partition_pool",
        "stations",
        "stop",
    }
    said = {
        (path.relative_to(PACKAGE).as_posix(), function_around(tree, line), what)
        for path in loop_modules()
        for tree in [ast.parse(path.read_text())]
        for line, what in waits(tree)
    }
    assert said == ALLOWED


def function_around(tree: ast.Module, line: int) -> str:
    """The innermost function that a line is in."""
    around = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and node.lineno <= line <= (node.end_lineno or 0)
    ]
    return max(around, key=lambda node: node.lineno).name


@pytest.mark.parametrize(
    "text",
    [
        "import torch\ntorch.cuda.synchronize()",
        "import torch\ntorch.cuda.synchronize(device)",
        "import torch\ntorch.accelerator.synchronize()",
        "from torch import cuda\ncuda.synchronize()",
        "from torch import cuda as c\nc.synchronize()",
        "import torch.cuda as gpu\ngpu.synchronize()",
        "from torch.cuda import synchronize",
        "from torch.cuda import synchronize as wait",
        "from torch.cuda.memory import empty_cache",
        "import torch\ntorch.cuda.memory.empty_cache()",
        "from torchzk.captures import empty_cache",
        "from torchzk import captures\ncaptures.empty_cache()",
        "import torch\ngetattr(torch.cuda, 'synchronize')()",
    ],
)
def test_the_scan_finds_it_under_any_name(text: str) -> None:
    assert list(waits(ast.parse(text)))


def test_the_scan_lets_a_stream_and_an_event_be_waited_for() -> None:
    text = "import torch\nstream = torch.cuda.Stream()\nstream.synchronize()\nevent.synchronize()"
    assert list(waits(ast.parse(text))) == []


@pytest.fixture
def trap(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Torch's device-wide waits, trapped: a trim is allowed to who holds a mem lock."""
    sprung: list[str] = []
    holders: dict[int, str] = {}
    real_take = FairLock._take

    def take(lock: FairLock, *args: object) -> None:
        real_take(lock, *args)  # type: ignore[arg-type]
        holders[threading.get_ident()] = lock.name

    def spring(what: str) -> Callable[..., None]:
        def call(*_: object) -> None:
            name = holders.get(threading.get_ident(), "no lock")
            if what != "empty_cache" or not name.endswith("mem lock"):
                sprung.append(f"{what} under {name}")
                raise AssertionError(sprung[-1])

        return call

    monkeypatch.setattr(FairLock, "_take", take)
    monkeypatch.setattr(torch.cuda, "synchronize", spring("synchronize"))
    monkeypatch.setattr(torch.accelerator, "synchronize", spring("synchronize"))
    monkeypatch.setattr(torch.cuda, "empty_cache", spring("empty_cache"))
    return sprung


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES.keys())
def test_no_worker_does_it(policy: Policy, trap: list[str]) -> None:
    device, referee = FakeDevice(capacity=50), Referee()
    device.on_trim = lambda: torch.cuda.empty_cache()
    setup = DeviceSetup(device, MemoryBudget(device.name, 50), 3)
    with watchdog(), Service([setup], policy) as service:
        jobs = [
            service.submit(f"{k}", FakeJob(f"{k}", Script(5, 20 + k), referee)) for k in range(20)
        ]
    assert {job.state for job in jobs} == {JobState.DONE}
    assert trap == [] and device.trims > 0


@pytest.mark.parametrize("step", ["prepare", "stage", "compute", "finish"])
def test_the_trap_springs(step: str, trap: list[str]) -> None:
    def wait() -> None:
        torch.cuda.synchronize()

    device = FakeDevice()
    setup = DeviceSetup(device, MemoryBudget(device.name, 50))
    with watchdog(), Service([setup]) as service:
        script = Script(hooks={step: wait})
        job = service.submit("job", FakeJob("job", script, Referee()))
    assert job.state is JobState.FAILED and len(trap) == 1


@pytest.fixture
def site(tmp_path: Path, device: torch.device) -> Iterator[api.Site]:
    """Keys and the first plan are made before the trap is set."""
    made = small_site(tmp_path, device)
    with made.keys:
        made.plan()
        yield made


def test_no_proof_does_it(site: api.Site, trap: list[str]) -> None:
    with watchdog():
        outcomes = list(api.prove_many([site], {"job": {"seeds": [1, 2]}}))
    assert outcomes[0].error is None and trap == []
