"""Processes that tests start, and their environment."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def child_environment(**changes: str) -> dict[str, str]:
    """This process's, in which a child imports what this process does; with `changes`."""
    # a child without PATH and HOME would not be a user's process; the package itself reads neither
    return {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **changes}


def run_python(
    *arguments: str | Path, cwd: Path | None = None, timeout: float = 120
) -> subprocess.CompletedProcess[str]:
    """What a Python with these arguments says, and what it ends with."""
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=timeout,
        env=child_environment(),
    )
