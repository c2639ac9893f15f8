"""Device time by events: a device with a queue of its own, whose time is told by the test."""

from __future__ import annotations

import io
import json
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import torch
from rich.console import Console
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from torchzk.errors import ResourceError
from torchzk.scheduler import gantt
from torchzk.scheduler.device_clock import CudaGauge, DeviceClock, clock_of
from torchzk.scheduler.sinks import Run, open_run, timeline
from torchzk.scheduler.stages import DeviceMemory, idle_seconds, uses_of
from torchzk.summary import device_stages, print_stages

GIB = 1 << 30


@dataclass
class FakeMoment:
    """Where a queue was when it was marked; past only once somebody has waited for it."""

    device: FakeDevice
    at_ms: float
    past: bool = False

    def synchronize(self) -> None:
        self.device.waits += 1
        if self.device.broken:
            raise RuntimeError("CUDA error: an illegal memory access was encountered\nmore of it")
        self.past = True

    def elapsed_time(self, other: FakeMoment) -> float:
        # as float32, which is what CUDA gives
        return torch.tensor(other.at_ms - self.at_ms, dtype=torch.float32).item()


@dataclass
class FakeDevice:
    """Work is queued by `work`, and done in the order of its thread's own queue."""

    lane: str = "cuda:0"
    waits: int = 0
    broken: bool = False
    allocated: int = 0
    _peak: int = 0
    _queues: dict[int, float] = field(default_factory=dict)

    def work(self, ms: float) -> None:
        thread = threading.get_ident()
        self._queues[thread] = self._queues.get(thread, 0.0) + ms

    def use(self, n_bytes: int) -> None:
        self.allocated += n_bytes
        self._peak = max(self._peak, self.allocated)

    def idle(self) -> None:
        self.waits += 1

    def mark(self) -> FakeMoment:
        if self.broken:
            raise RuntimeError("CUDA error: an illegal memory access was encountered\nmore of it")
        return FakeMoment(self, self._queues.get(threading.get_ident(), 0.0))

    def most_memory(self) -> DeviceMemory:
        peak, self._peak = self._peak, self.allocated
        return DeviceMemory(peak, peak + GIB)


def started() -> tuple[FakeDevice, DeviceClock]:
    device = FakeDevice()
    return device, DeviceClock(device)


def test_spans_nest_on_the_device_as_on_the_host_and_nobody_waits() -> None:
    device, clock = started()
    waits = device.waits
    watched = clock.watcher.on_lane("partition 0")
    with watched.span("prove"):
        device.work(2)
        with watched.span("quotient"):
            device.work(30.25)
        with watched.span("msm h"):
            device.work(593)
    with watched.span("final sums"):
        pass
    assert device.waits == waits
    spans = {d.of.name: d for d in clock.take()}
    assert {name: round(d.span.seconds * 1e3, 6) for name, d in spans.items()} == {
        "quotient": 30.25,
        "msm h": 593,
        "prove": 625.25,
        "final sums": 0,
    }
    prove, quotient, msm = (spans[n].span for n in ("prove", "quotient", "msm h"))
    assert {d.span.lane for d in spans.values()} == {"cuda:0"}
    assert {d.of.lane for d in spans.values()} == {"partition 0"}
    assert quotient.start_ns - prove.start_ns == 2_000_000
    assert quotient.end_ns == msm.start_ns and msm.end_ns == prove.end_ns
    assert clock.take() == ()


def test_the_anchor_puts_the_device_on_the_clock_of_the_host() -> None:
    device = FakeDevice()
    device.work(1e6)
    before = time.perf_counter_ns()
    clock = DeviceClock(device)
    after = time.perf_counter_ns()
    device.work(5)
    with clock.watcher.span("s"):
        device.work(1)
    (one,) = clock.take()
    assert before <= one.span.start_ns - 5_000_000 <= after


def test_children_never_leave_their_parent_however_late_it_is() -> None:
    # a float32 of milliseconds is a whole number of them after some hours
    device, clock = started()
    device.work(2.0**24)
    watched = clock.watcher
    with watched.span("outer"):
        for _ in range(50):
            with watched.span("inner"):
                device.work(0.3)
    *inner, outer = (d.span for d in clock.take())
    assert all(outer.start_ns <= s.start_ns <= s.end_ns <= outer.end_ns for s in inner)
    assert sum(s.end_ns - s.start_ns for s in inner) == pytest.approx(15e6, abs=50)


def test_threads_have_stacks_and_lanes_of_their_own() -> None:
    device, clock = started()
    both_open = threading.Barrier(2)

    def prove(ms: float) -> None:
        with clock.watcher.span(f"outer {ms}"), clock.watcher.span("inner"):
            both_open.wait(120)
            device.work(ms)
            both_open.wait(120)

    threads = [threading.Thread(target=prove, args=(ms,)) for ms in (7, 11)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    found = clock.take()
    by_lane: dict[str, set[tuple[str, float]]] = {}
    for d in found:
        by_lane.setdefault(d.span.lane, set()).add((d.of.name, round(d.span.seconds * 1e3, 6)))
    assert sorted(by_lane) == ["cuda:0", "cuda:0 (2)"]
    assert sorted(sorted(spans) for spans in by_lane.values()) == [
        [("inner", 7), ("outer 7", 7)],
        [("inner", 11), ("outer 11", 11)],
    ]


def test_the_peak_of_a_stage_is_its_own_and_counts_for_those_around_it() -> None:
    device, clock = started()
    watched = clock.watcher
    device.use(10)
    with watched.span("outer"):
        device.use(5)
        with watched.span("large"):
            device.use(100)
            device.use(-100)
        with watched.span("small"):
            device.use(1)
        device.use(20)
    with watched.span("after"):
        device.use(-30)
    most = {d.of.name: d.most.allocated for d in clock.take()}
    assert most == {"large": 115, "small": 16, "outer": 115, "after": 36}


def test_spans_from_before_the_clock_are_left_out() -> None:
    run = Run(Path(), "t", pytest.fail)
    watched = timeline(run)
    device = FakeDevice()
    with watched.span("load torch"):
        run.clock = DeviceClock(device)
        with watched.span("inside"):
            device.work(1)
    with watched.span("later"):
        device.work(2)
    assert [d.of.name for d in run.record().device] == ["inside", "later"]
    # taken once, kept
    assert [d.of.name for d in run.record().device] == ["inside", "later"]
    assert [s.name for s in run.spans] == ["inside", "load torch", "later"]


def test_a_broken_device_stops_the_clock_and_hides_no_error(tmp_path: Path) -> None:
    device, clock = started()

    def fail() -> None:
        with open_run(tmp_path, "t", pytest.fail, {}) as run:
            run.clock = clock
            with timeline(run).span("msm h"):
                device.broken = True
                raise ResourceError("the device fell off the bus")

    with pytest.raises(ResourceError, match="fell off"):
        fail()
    assert clock.fault == "CUDA error: an illegal memory access was encountered"
    with clock.watcher.span("more"):
        pass
    assert clock.take() == ()
    (folder,) = tmp_path.iterdir()
    facts = json.loads((folder / "trace.json").read_text())["otherData"]
    assert facts["device times"].startswith("stopped: CUDA error")


def proof(runs: Path) -> Run:
    """A run of two partitions on a device that is told its times, in this order."""
    device = FakeDevice()
    with open_run(runs, "prove porep-32GiB", pytest.fail, {"device": "cuda:0"}) as run:
        watched = timeline(run)
        with watched.span("load torch"):
            run.clock = DeviceClock(device)
        run.planned |= {"msm h": 90 * GIB, "quotient": 21 * GIB}
        device.use(47 * GIB)
        for partition in range(2):
            lane = watched.on_lane(f"partition {partition}")
            with lane.span("quotient"):
                device.use(17 * GIB)
                device.work(213)
                device.use(-17 * GIB)
            device.work(1.5)
            with lane.span("msm h"):
                device.use(40 * GIB)
                device.work(593)
                device.use(-40 * GIB)
            device.work(1)
    return run


def test_what_stages_took_is_gathered_over_partitions(tmp_path: Path) -> None:
    record = proof(tmp_path).record()
    uses = {use.name: use for use in uses_of(record)}
    assert uses["load torch"].device_seconds is None and uses["load torch"].most is None
    quotient, msm = uses["quotient"], uses["msm h"]
    assert (quotient.times, msm.times) == (2, 2)
    assert quotient.device_seconds == pytest.approx(0.426, abs=1e-6)
    assert msm.most == DeviceMemory(87 * GIB, 88 * GIB)
    assert (quotient.planned, msm.planned) == (21 * GIB, 90 * GIB)
    assert idle_seconds(record.device) == pytest.approx(0.004, abs=1e-6)
    assert idle_seconds([]) == 0
    assert device_stages(record)["msm h"]["peak_bytes"] == 87 * GIB
    assert list(device_stages(record)) == ["quotient", "msm h"]


def test_the_table_has_device_ms_host_s_and_peaks(tmp_path: Path) -> None:
    record = proof(tmp_path).record()
    console = Console(width=100, file=io.StringIO())
    with console.capture() as capture:
        print_stages(console, record)
    lines = [line.strip() for line in capture.get().strip().splitlines()]
    assert lines[0].split() == (
        ["stage", "device", "ms", "host", "s", "share", "peak", "VRAM", "planned"]
    )
    (msm,) = (line.split() for line in lines if line.startswith("msm h"))
    assert msm[2] == "1,186.0" and msm[5:9] == ["87.0", "GiB", "90.0", "GiB"]
    (idle,) = (line.split() for line in lines if line.startswith("device idle"))
    assert idle == ["device", "idle", "between", "4.0"]


def test_the_files_of_a_run_have_the_device(tmp_path: Path) -> None:
    run = proof(tmp_path)
    folder = run.folder()
    assert folder is not None
    events = json.loads((folder / "trace.json").read_text())["traceEvents"]
    lanes = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
    drawn = {(lanes[e["pid"], e["tid"]], e["name"]) for e in events if e["ph"] == "X"}
    assert {("cuda:0", "msm h"), ("partition 1", "msm h"), ("host", "load torch")} <= drawn
    peaks = [e["args"]["MiB"] for e in events if e["name"] == "peak memory"]
    assert peaks == [64 * 1024, 87 * 1024] * 2
    board = EventAccumulator(str(folder))
    board.Reload()
    assert board.Scalars("device_ms/msm_h")[0].value == pytest.approx(1186)
    assert board.Scalars("device_peak_mib/allocated/quotient")[0].value == 64 * 1024
    assert board.Scalars("device_peak_mib/planned/quotient")[0].value == 21 * 1024
    assert board.Scalars("device/idle_between_stages_ms")[0].value == pytest.approx(4, abs=1e-3)
    text = board.Tensors("run/text_summary")[0].tensor_proto.string_val[0].decode()
    assert "| msm h | 1,186.0 |" in text and "| idle between stages | 4.0 |" in text
    texts = [t.get_text().strip() for t in gantt.draw(run.record()).figure.axes[0].texts]
    assert texts.index("cuda:0") < texts.index("host") < texts.index("partition 1")
    assert "msm h  x2" in texts


def test_without_cuda_there_is_no_clock() -> None:
    assert clock_of(torch.device("cpu")) is None


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_events_of_a_gpu() -> None:
    device = torch.device("cuda:0")
    clock = DeviceClock(CudaGauge(device))
    with clock.watcher.span("outer"), clock.watcher.span("inner"):
        x = torch.zeros(1 << 26, dtype=torch.int32, device=device)
        for _ in range(20):
            x += 1
    inner, outer = clock.take()
    assert inner.most.allocated >= 1 << 28 and inner.most.reserved >= inner.most.allocated
    assert 0 < inner.span.seconds <= outer.span.seconds < 5
    assert abs(outer.span.start_ns - outer.of.start_ns) < 50_000_000
