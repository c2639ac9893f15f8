"""The script that says where a device was idle, on a trace that is easy to add up."""

from __future__ import annotations

import pytest

from scheduler.idle_in_trace import idle
from timeline_samples import MS, heard, partition, span
from torchzk.scheduler.chrome_trace import trace
from torchzk.scheduler.device_samples import ProfiledWindow
from torchzk.scheduler.stages import RunRecord


def test_idle_is_told_by_stage() -> None:
    spans = [*partition(0, "cuda:0", 0, 100), span("s partition 0", "classes", 181, 183)]
    # on the device the witness is from 110 to 130, msm h from 130 to 180
    device = heard(spans, "cuda:0", late=0)
    kernels = tuple((a * MS, b * MS) for a, b in ((112, 120), (124, 136), (140, 150), (182, 190)))
    seen = ProfiledWindow("cuda:0", (100 * MS, 200 * MS), kernels, ((136 * MS, 139 * MS),), 9)
    row = idle(trace(RunRecord("t", tuple(spans), device=device, profiled=(seen,))))
    assert row["looked_s"] == pytest.approx(0.078)
    assert row["busy_by_kernels"] == pytest.approx(38 / 78)
    assert row["copies_alone_ms"] == pytest.approx(3)
    # pieces lie inside msm h and are its own; the first kernel seen is where looking begins
    said = {"witness": 4, "msm h": 1 + 30, "between": 1, "classes": 1}
    assert row["idle_ms"] == pytest.approx(said)
    assert row["of_ms"] == pytest.approx({"witness": 18, "msm h": 50, "classes": 2})
