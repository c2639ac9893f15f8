"""How busy a device was: kernels of all workers once, and neither waits nor work of the host."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

from timeline_samples import MS, heard, partition, span
from torchzk.scheduler.device_samples import DeviceMemory, LevelSample, ProfiledWindow, VramSample
from torchzk.scheduler.device_tables import counts, tables
from torchzk.scheduler.device_use import device_uses, kernel_spans, planned_over_time
from torchzk.scheduler.lock_use import lock_uses
from torchzk.scheduler.stages import RunRecord
from torchzk.summary import device_report, print_devices


def test_only_innermost_stages_count() -> None:
    spans = partition(0, "cuda:0", 0, 100)
    record = RunRecord("t", tuple(spans), device=heard(spans, "cuda:0"))
    found = [
        (k.host.name, k.start_ns // MS, k.end_ns // MS, k.worker) for k in kernel_spans(record)
    ]
    worker = "cuda:0 worker 0"
    assert found == [
        ("witness", 117, 137, worker),
        ("pieces", 142, 157, worker),
        ("pieces", 162, 187, worker),
    ]
    (use,) = device_uses(record)
    assert (use.device, use.clock, use.workers) == ("cuda:0", "device", 1)
    assert use.window == (117 * MS, 187 * MS)
    # 20 + 15 + 25 of 70
    assert use.busy == 60 / 70


def test_a_step_without_stages_is_no_kernel() -> None:
    bare = [s for s in partition(0, "cpu", 0, 100) if "partition" not in s.lane]
    assert kernel_spans(RunRecord("t", tuple(bare))) == []
    assert device_uses(RunRecord("t", tuple(bare))) == []


def test_kernels_are_merged_over_workers() -> None:
    # the host waits long before the first and after the last; that is nobody's
    spans = [*partition(0, "cuda:0", 0, 100), *partition(1, "cuda:0", 1, 190)]
    spans.append(span("host", "key", 0, 60))
    record = RunRecord("t", tuple(spans), device=heard(spans, "cuda:0", 0))
    (use,) = device_uses(record)
    assert use.workers == 2
    assert use.window == (110 * MS, 270 * MS) and use.busy == 120 / 160
    # stages of two streams that cross count once
    crossing = replace(record, device=(*record.device, *heard(partition(2, "x", 0, 95), "cuda:0")))
    (more,) = device_uses(replace(crossing, spans=(*spans, *partition(2, "cuda:0", 0, 95))))
    assert more.busy <= 1 and sum(e - s for s, e in more.stages) < 180 * MS


def test_two_devices_are_apart() -> None:
    zero, one = partition(0, "cuda:0", 0, 100), partition(1, "cuda:1", 0, 120)
    record = RunRecord(
        "t", (*zero, *one), device=(*heard(zero, "cuda:0", 0), *heard(one, "cuda:1", 0))
    )
    uses = device_uses(record)
    assert [(u.device, u.window[0] // MS, u.busy) for u in uses] == [
        ("cuda:0", 110, 60 / 70),
        ("cuda:1", 130, 60 / 70),
    ]
    assert {k.worker for k in kernel_spans(record)} == {"cuda:0 worker 0", "cuda:1 worker 0"}


def test_on_a_cpu_the_hosts_clock_is_the_devices() -> None:
    (use,) = device_uses(RunRecord("t", tuple(partition(0, "cpu", 0, 100))))
    assert (use.device, use.clock, use.busy) == ("cpu", "host", 60 / 70)
    # a GPU whose clock heard nothing has no kernels that anybody knows of
    spans = partition(0, "cuda:0", 0, 100)
    other = heard([span("s partition 9", "witness", 0, 1)], "cuda:0")
    assert kernel_spans(RunRecord("t", tuple(spans), device=other)) == []


def test_what_cupti_saw_is_told_beside_it() -> None:
    spans = partition(0, "cuda:0", 0, 100)
    kernels = ((110 * MS, 115 * MS), (120 * MS, 130 * MS))
    copies = ((90 * MS, 112 * MS), (128 * MS, 134 * MS))
    seen = ProfiledWindow("cuda:0", (0, 150 * MS), kernels, copies, 999)
    record = RunRecord("t", tuple(spans), device=heard(spans, "cuda:0", 0), profiled=(seen,))
    (use,) = device_uses(record)
    # of the time from the first kernels to the end of the look: 110 to 150
    assert use.profiled_busy == 15 / 40 and use.busy_while_profiled == 35 / 40
    # the last 4 of the second copy; before the first kernels nobody waits
    assert use.copies_alone == pytest.approx(4 / 40)
    table = tables(record)[1]
    assert table.rows == (("cuda:0", "0.15", "999", "37.5%", "87.5%", "10.0%"),)
    report = device_report(record)["cuda:0"]
    assert report["busy_by_kernels"] == 15 / 40 and report["busy_by_stages"] == 60 / 70


def printed(record: RunRecord) -> str:
    """What a terminal of 80 columns shows."""
    console = Console(width=80, file=io.StringIO())
    with console.capture() as capture:
        print_devices(console, record)
    return capture.get()


def test_tables_fit_a_terminal() -> None:
    spans = [*partition(0, "cuda:10", 0, 100), *partition(1, "cuda:10", 1, 20_000_000)]
    kernels = tuple((2 * k * MS, (2 * k + 1) * MS) for k in range(100))
    seen = ProfiledWindow("cuda:10", (0, 90_000_000 * MS), kernels, kernels, 99_999_999)
    record = RunRecord("t", tuple(spans), device=heard(spans, "cuda:10", 0), profiled=(seen,))
    text = printed(record)
    shown = [line.strip() for line in text.splitlines()]
    for table in tables(record):
        # heads as they are, in one line
        assert any(line.split() == " ".join(table.head).split() for line in shown), table.head
        for row in table.rows:
            assert any(line.split() == " ".join(row).split() for line in shown), row
    assert "…" not in text and len(tables(record)) == 3


def test_one_worker_of_a_cpu_needs_no_table() -> None:
    alone = RunRecord("t", tuple(partition(0, "cpu", 0, 100)))
    assert tables(alone) == [] and printed(alone) == ""
    two = RunRecord("t", (*alone.spans, *partition(1, "cpu", 1, 190)))
    assert [table.rows[0][0] for table in tables(two)] == ["cpu", "cpu mem lock"]
    spans = partition(0, "cuda:0", 0, 100)
    assert tables(RunRecord("t", tuple(spans), device=heard(spans, "cuda:0"))) != []


def test_locks_trims_evictions_and_memory() -> None:
    spans = [*partition(0, "cuda:0", 0, 100), *partition(1, "cuda:0", 1, 190)]
    spans += [
        span("cuda:0 worker 1", "trim", 176, 178),
        span("cuda:1 worker 0", "trim", 176, 178),
        span("host", "evict", 1, 2),
    ]
    samples = (
        VramSample(1, "cuda:0", DeviceMemory(10, 20, 3)),
        VramSample(2, "cuda:0", DeviceMemory(10, 20, 5)),
    )
    record = RunRecord(
        "t",
        tuple(spans),
        device=heard(spans, "cuda:0", 0),
        planned={"witness": 7},
        vram=samples,
        levels=(LevelSample(3, "cuda:0 promised", 5),),
    )
    assert counts(record, "cuda:0") == {"trims": 1, "evictions": 1, "torch's own trims": 2}
    mem, compute = lock_uses(spans)
    assert (mem.name, mem.holds, compute.name) == ("cuda:0 mem lock", 2, "cuda:0 compute lock")
    assert compute.held_seconds == pytest.approx(0.18) and compute.longest_wait == 0.005
    assert planned_over_time(record, "cuda:0") == [
        ((110 * MS, 130 * MS), 7),
        ((200 * MS, 220 * MS), 7),
    ]
    text = printed(record)
    assert "75.0%" in text and "cuda:0 compute lock" in text and "profiled" not in text
    busy, _, held = (line.split() for line in text.splitlines() if line.startswith("cuda:0"))
    assert busy == ["cuda:0", "2", "0.16", "75.0%", "1", "1", "2"]
    assert held == ["cuda:0", "compute", "lock", "2", "0.18", "0.01", "0.01"]
