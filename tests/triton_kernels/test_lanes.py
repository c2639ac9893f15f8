"""Every lane is covered by one run: what cannot run in this process runs in another."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch

pytest.importorskip("triton", reason="Triton is not installed: no kernel lane runs at all")

from child_environment import child_environment  # noqa: E402
from triton_kernels.lanes import INTERPRETED, KERNEL_TESTS  # noqa: E402

HERE = Path(__file__).parent
# they say themselves what they need
ELSEWHERE = ("test_long_vectors.py", "test_warm.py")
outside = pytest.mark.skipif(INTERPRETED, reason="this is the interpreted lane")


def interpret(name: str) -> subprocess.CompletedProcess[str]:
    """Run a module of tests in the interpreter, in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--no-header"]
        + [str(HERE / name)],
        cwd=HERE.parents[1],
        # with more threads two processes would wait for each other's
        env=child_environment(TRITON_INTERPRET="1", CUDA_VISIBLE_DEVICES="", OMP_NUM_THREADS="1"),
        capture_output=True,
        text=True,
        check=False,
    )


@outside
def test_interpreted_lane() -> None:
    """The kernel tests pass in Triton's interpreter, and none of them is skipped."""
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        runs = list(pool.map(interpret, KERNEL_TESTS))
    for name, run in zip(KERNEL_TESTS, runs, strict=True):
        assert run.returncode == 0, name + "\n" + run.stdout + run.stderr
        counts = {k: int(n) for n, k in re.findall(r"(\d+) (passed|skipped)", run.stdout)}
        assert counts["passed"] > 0, run.stdout
        assert "skipped" not in counts, run.stdout


@outside
def test_every_module_is_in_a_lane() -> None:
    """What names no lane is collected here, where there may be no device for it."""
    modules = {path.name for path in HERE.glob("test_*.py")} - {Path(__file__).name}
    kernels = {name for name in modules if "device: torch.device" in (HERE / name).read_text()}
    assert set(KERNEL_TESTS) <= modules
    assert kernels <= {*KERNEL_TESTS, *ELSEWHERE}


@outside
def test_the_cpu_is_refused() -> None:
    from torchzk.errors import ResourceError
    from torchzk.triton_kernels import variants

    with pytest.raises(ResourceError, match="needs a CUDA device"):
        variants.choose(torch.device("cpu"))
