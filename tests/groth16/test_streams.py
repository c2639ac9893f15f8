"""Marks and streams where there are none of them, and ranges."""

from __future__ import annotations

import pytest
import torch

from torchzk.errors import LayoutError
from torchzk.groth16.streams import Mark, side_stream, steps


def test_marks_and_streams_may_be_used_anywhere(device: torch.device) -> None:
    side = side_stream(device)
    rows = torch.zeros(3, dtype=torch.int32, device=device)
    start = Mark.here(device)
    with side.current():
        start.hold(device)
        rows += 1
        done = Mark.here(device)
    done.wait()
    assert rows.tolist() == [1, 1, 1]
    side.join()
    assert side_stream(device) is side


def test_ranges_end_where_the_rows_do() -> None:
    assert list(steps(7, 3)) == [(0, 3), (3, 6), (6, 7)]
    assert list(steps(6, 3)) == [(0, 3), (3, 6)]
    assert list(steps(0, 3)) == []
    with pytest.raises(LayoutError, match="at least one point, got 0"):
        steps(9, 0)
