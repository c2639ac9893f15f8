"""Killed outright at random moments: nothing lost, nothing proved twice, the database sound."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from child_environment import child_environment

SCRIPT = Path(__file__).with_name("killed_engine.py")


@pytest.mark.parametrize(
    "kills", [10, pytest.param(50, marks=pytest.mark.full("50 engines are killed"))]
)
def test_killed_at_random_moments_under_load(tmp_path: Path, kills: int) -> None:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(tmp_path), str(kills), str(kills)],
        env=child_environment(),
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    # it was under load: jobs were taken up again, and ended before and after
    assert seen["accepted"] > 5 * kills and seen["ended"] > kills
    assert seen["pieces found after a kill"] > 0
