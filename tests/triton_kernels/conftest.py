"""Which lane this run is: compiled on a GPU, interpreted on the CPU, or compiled only.

A process is interpreted from its first import of Triton or not at all, so the lane is decided by
`TRITON_INTERPRET` in the environment. Tests that run kernels are collected where kernels can run;
elsewhere `test_lanes` runs them, interpreted, in a process of its own. What reads compiled code
is collected where there is some.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from types import ModuleType

import pytest
import torch

from triton_kernels.lanes import INTERPRETED, KERNEL_TESTS, RUNS_KERNELS

_HOST = ["test_ptx.py", "test_ptx_shoup.py", "test_compile.py", "test_repeated.py", "test_plans.py"]
_HOST += ["test_quotient_memory.py", "test_needs.py", "test_beside.py"]
# the first is for a GPU alone, as is one test of the second; elsewhere they are skipped, and say so
_HOST += ["test_long_vectors.py", "test_warm.py"]
# modules that call operations as often as they say
_ONCE = ["test_graphs.py", "test_rate.py", "test_operations.py", "test_long_vectors.py"]
_ONCE += ["test_in_turn_kernels.py"]

collect_ignore: list[str] = []
if importlib.util.find_spec("triton") is None:
    # test_lanes says so
    collect_ignore += [*KERNEL_TESTS, *_HOST]
else:
    if INTERPRETED:
        from triton_kernels import ptx_interpreter, quick_interpreter

        quick_interpreter.install()
        ptx_interpreter.install()
        collect_ignore += _HOST
    if not RUNS_KERNELS:
        collect_ignore += KERNEL_TESTS


@pytest.fixture
def device() -> torch.device:
    """Where kernels run; the interpreter's tensors are on the CPU."""
    return torch.device("cpu") if INTERPRETED else torch.device("cuda", 0)


@pytest.fixture(autouse=True)
def repeated(request: pytest.FixtureRequest) -> Iterator[None]:
    """On a GPU every operation that a test calls is called twice, and gives the same bits."""
    if INTERPRETED or not RUNS_KERNELS or request.path.name in _ONCE + _HOST:
        yield
        return
    from torchzk import triton_kernels
    from triton_kernels.repeated import calling_twice

    named = [v for v in vars(request.module).values() if isinstance(v, ModuleType)]
    ours = [module for module in named if module.__name__.startswith(triton_kernels.__name__)]
    with calling_twice(triton_kernels, [request.module, *ours]):
        yield


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What every case that was compiled needs."""
    module = sys.modules.get("triton_kernels.ahead_of_time")
    compiled = module.COMPILED if module else {}
    if compiled:
        names = ", ".join(f"sm_{arch}" for arch in module.ARCHS)
        terminalreporter.section(
            f"registers of a thread on {names}, and spills where there are any"
        )
        for name, row in compiled.items():
            cells = " ".join(f"{row[arch]!s:4}" for arch in sorted(row))
            terminalreporter.write_line(f"{name:44} {cells}")


@pytest.fixture(params=["ptx", "plain"])
def variant(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both variants in turn, whatever the known-answer test would choose."""
    from torchzk.triton_kernels import variants

    choice = variants.Choice(request.param, "test", "test")
    monkeypatch.setattr(variants, "choose", lambda device: choice)
    return request.param


@pytest.fixture
def anew(device: torch.device, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Transforms by plans that are made anew: plans and graphs keep what was tuned before."""
    from torchzk.triton_kernels import tuning
    from torchzk.triton_kernels.launch import arch_of
    from torchzk.triton_kernels.plans import PLANS

    graph = ("ntt graph", 8, arch_of(device))
    monkeypatch.setitem(tuning.NUMBERS, graph, tuning.Number(((0, 0),), "test"))
    PLANS.drop()
    yield
    PLANS.drop()


@pytest.fixture
def quick_inverse(monkeypatch: pytest.MonkeyPatch) -> None:
    """Inversions by integers where kernels are interpreted.

    Division steps are tested by themselves, and as part of a whole multi-scalar multiplication.
    """
    if INTERPRETED:
        from torchzk.triton_kernels import divsteps
        from triton_kernels import quick_interpreter

        monkeypatch.setattr(divsteps, "inverse", quick_interpreter.inverse)


@pytest.fixture
def asm(monkeypatch: pytest.MonkeyPatch) -> None:
    """The variant that GPUs run."""
    from torchzk.triton_kernels import variants

    choice = variants.Choice("ptx", "test", "test")
    monkeypatch.setattr(variants, "choose", lambda device: choice)
