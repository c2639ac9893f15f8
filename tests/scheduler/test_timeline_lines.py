"""cuzk's TIMELINE lines: one an event, in order, and none that a job's name could forge."""

from __future__ import annotations

from timeline_samples import heard, partition, span
from torchzk.scheduler.stages import RunRecord
from torchzk.scheduler.timeline_lines import timeline_lines
from torchzk.timeline import Span


def test_the_events_of_a_partition() -> None:
    spans = partition(3, "cuda:0", 1, 100)
    record = RunRecord("t", (span("host", "key", 0, 5), *spans), device=heard(spans, "cuda:0"))
    assert timeline_lines(record) == [
        "TIMELINE,70,GPU_PICKUP,s,worker=1,partition=3",
        "TIMELINE,70,SYNTH_START,s,partition=3",
        "TIMELINE,95,SYNTH_END,s,partition=3,synth_ms=20",
        "TIMELINE,95,GPU_QUEUE,s,partition=3",
        "TIMELINE,117,GPU_START,s,worker=1,partition=3",
        # 20 + 15 + 25 of the 70 between: no wait is counted
        "TIMELINE,187,GPU_END,s,worker=1,partition=3,gpu_ms=60",
    ]


def test_a_name_forges_no_line() -> None:
    evil = "a,b\nTIMELINE,0,GPU_END,x"
    lines = timeline_lines(RunRecord("t", (span(f"{evil} partition 0", "witness", 0, 2),)))
    assert len(lines) == 2 and all("\n" not in line for line in lines)
    assert [line.split(",", 4)[3] for line in lines] == ["a%2Cb%0ATIMELINE%2C0%2CGPU_END%2Cx"] * 2


def test_a_single_job_has_the_runs_title_and_no_steps() -> None:
    lines = timeline_lines(RunRecord("prove x", (Span("partition 0", "witness", 5, 2_000_005),)))
    assert lines == [
        "TIMELINE,0,GPU_START,prove%20x,worker=0,partition=0",
        "TIMELINE,2,GPU_END,prove%20x,worker=0,partition=0,gpu_ms=2",
    ]


def test_a_partition_done_twice_has_its_events_twice() -> None:
    again = [*partition(3, "cuda:0", 1, 100), *partition(3, "cuda:1", 0, 300)]
    device = (*heard(again[:14], "cuda:0", 0), *heard(again[14:], "cuda:1", 0))
    lines = timeline_lines(RunRecord("t", tuple(again), device=device))
    ends = [line for line in lines if "GPU_END" in line]
    assert [line.split(",")[4] for line in ends] == ["worker=1", "worker=0"]
    assert [line.split(",")[1] for line in ends] == ["110", "310"]
