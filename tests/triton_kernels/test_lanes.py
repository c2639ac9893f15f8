"""Every lane is covered by one run: what cannot run in this process runs in another."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

pytest.importorskip("triton", reason="Triton is not installed: no kernel lane runs at all")

from triton_kernels.lanes import INTERPRETED  # noqa: E402

HERE = Path(__file__).parent
outside = pytest.mark.skipif(INTERPRETED, reason="this is the interpreted lane")


@outside
def test_interpreted_lane() -> None:
    """The kernel tests pass in Triton's interpreter, and none of them is skipped."""
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--no-header", str(HERE)]
        + [f"--ignore={HERE / 'test_lanes.py'}"],
        cwd=HERE.parents[1],
        env={**os.environ, "TRITON_INTERPRET": "1", "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    counts = {k: int(n) for n, k in re.findall(r"(\d+) (passed|skipped)", run.stdout)}
    assert counts["passed"] > 80, run.stdout
    assert "skipped" not in counts, run.stdout


@outside
def test_the_cpu_is_refused() -> None:
    from torchzk.errors import ResourceError
    from torchzk.triton_kernels import variants

    with pytest.raises(ResourceError, match="needs a CUDA device"):
        variants.choose(torch.device("cpu"))
