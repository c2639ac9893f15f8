"""Every lane is covered by one run: what cannot run in this process runs in another."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Sequence
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


def interpret(names: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Run modules of tests in the interpreter, in a process of their own."""
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--no-header"]
        + [str(HERE / name) for name in names],
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
    cores = len(os.sched_getaffinity(0))
    # what starts a process, and reads kernels there, is shared by the modules of a batch
    batches = [KERNEL_TESTS[i :: 2 * cores] for i in range(2 * cores)]
    with ThreadPoolExecutor(cores) as pool:
        runs = list(pool.map(interpret, filter(None, batches)))
    for run in runs:
        assert run.returncode == 0, run.stdout + run.stderr
        assert "skipped" not in run.stdout, run.stdout
    said = "".join(run.stdout for run in runs)
    assert [name for name in KERNEL_TESTS if not re.search(rf"{name} \.+", said)] == []


@outside
def test_every_module_is_in_a_lane() -> None:
    """What names no lane is collected here, where there may be no device for it."""
    modules = {path.name for path in HERE.glob("test_*.py")} - {Path(__file__).name}
    on_device = re.compile(r"def test_\w+\([^)]*device: torch\.device")
    kernels = {name for name in modules if on_device.search((HERE / name).read_text())}
    assert set(KERNEL_TESTS) <= modules
    assert kernels <= {*KERNEL_TESTS, *ELSEWHERE}


@outside
def test_the_cpu_is_refused() -> None:
    from torchzk.errors import ResourceError
    from torchzk.triton_kernels import variants

    with pytest.raises(ResourceError, match="needs a CUDA device"):
        variants.choose(torch.device("cpu"))
