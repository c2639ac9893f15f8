"""The script that shows trims beside kernels, on a CPU, where there is nothing to give back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from matplotlib.patches import Rectangle

from scheduler import trims_picture
from scheduler.trims_on_timeline import CASES, measured


def test_one_worker_trims_while_the_other_holds_the_compute_lock(tmp_path: Path) -> None:
    case = CASES[0]
    row = measured("default", case, torch.device("cpu"), tmp_path)
    assert row["right"] and row["trims"] == 1
    # the kernels end after they were told of the trim
    assert 0 < row["kernels_left_ms"] < row["kernels_ms"] and row["longest_pause_ms"] > 0
    json.dumps(row)
    assert (tmp_path / f"trims-default-{case}.png").stat().st_size > 1000
    (axes,) = trims_picture.draw([row | {"device": "a", "torch": "b"}]).figure.axes
    kernels, trim = axes.patches
    assert isinstance(kernels, Rectangle) and isinstance(trim, Rectangle)
    assert kernels.get_width() == row["kernels_ms"] / 1e3
    left = (trim.get_x(), trim.get_x() + trim.get_width())
    ended = (row["kernels_ms"] - row["kernels_left_ms"]) / 1e3
    assert left == pytest.approx((ended - row["trim_ms"] / 1e3, ended))
