"""What a service leaves: lanes in a picture, memory over time, traces whose spans never cross."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from fake_devices import FakeDevice, FakeJob, FakePartition, Referee, Script, setups, watchdog
from timeline_samples import MS, heard, partition, span
from torchzk.scheduler import chrome_trace, gantt, lane_picture
from torchzk.scheduler.device_clock import DeviceClock
from torchzk.scheduler.device_clocks import DeviceClocks
from torchzk.scheduler.device_samples import DeviceMemory, ProfiledWindow, VramSample
from torchzk.scheduler.device_use import device_uses
from torchzk.scheduler.service import Service
from torchzk.scheduler.sinks import Run, open_run, timeline
from torchzk.scheduler.stages import RunRecord
from torchzk.scheduler.work import JobState
from torchzk.scheduler.worker_device import Device
from torchzk.timeline import Timeline


class StagedPartition(FakePartition):
    """One that has stages of its own, on its own lane."""

    stages: Timeline

    def compute(self, check: Callable[[], None]) -> None:
        for name in ("witness", "msm h"):
            with self.stages.span(name):
                time.sleep(0.002)
        super().compute(check)


class StagedJob(FakeJob):
    """A job of such partitions, watched by a run."""

    run: Timeline

    def partition(self, index: int, device: Device, timeline: Timeline) -> StagedPartition:
        assert isinstance(device, FakeDevice)
        part = StagedPartition(self, index, device)
        part.stages = self.run.on_lane(f"{self.name} partition {index}")
        return part


def served(runs: Path) -> Run:
    """Four jobs of three partitions, three workers, which wait for bytes and trim."""
    with open_run(runs, "serve", pytest.fail, {}) as run, watchdog():
        watched = timeline(run)
        device = FakeDevice("fake:0", 50)
        with Service(setups(device, workers=3), timeline=watched.backstage) as service:
            jobs = []
            for k in range(4):
                job = StagedJob(f"job {k}", Script(3, 20 + k), Referee())
                job.run = watched
                jobs.append(service.submit(job.name, job))
        assert {job.state for job in jobs} == {JobState.DONE}
    return run


def test_a_service_leaves_its_lanes(tmp_path: Path) -> None:
    run = served(tmp_path)
    folder, record = run.folder(), run.record()
    assert folder is not None and (folder / "lanes.png").stat().st_size > 10_000
    (use,) = device_uses(record)
    assert (use.device, use.workers, use.clock) == ("fake:0", 3, "host")
    assert 0 < use.busy <= 1 and len(use.stages) <= 24
    texts = [t.get_text().strip() for t in lane_picture.draw(record).figure.axes[0].texts]
    names = [text for text in texts if not text.endswith("%")]
    assert names == [
        "fake:0 kernels",
        "fake:0 mem lock",
        "fake:0 mem lock waits",
        "fake:0 compute lock",
        "fake:0 compute lock waits",
        *(f"fake:0 worker {k}" for k in range(3)),
        "reading 0",
        "checking 0",
        "finishing 0",
    ]
    assert f"{use.busy:.1%}" in texts
    board = EventAccumulator(str(folder))
    board.Reload()
    assert board.Tags()["images"] == ["timeline", "lanes"]
    assert board.Scalars("busy/fake0/stages")[0].value == pytest.approx(use.busy)
    planned = [s.value for s in board.Scalars("vram_mib/fake0/planned")]
    assert planned[-1] == 0 and max(planned) == pytest.approx(46 / 2**20)
    trims = board.Scalars("counts/fake0/trims")[0].value
    assert trims == sum(s.name == "trim" for s in record.spans)
    # as docs/timeline.md calls it
    assert board.Scalars("counts/fake0/torchs_own_trims")[0].value == 0
    text = board.Tensors("run/text_summary")[0].tensor_proto.string_val[0].decode()
    assert "| fake:0 compute lock | 12 |" in text and "| fake:0 worker 0 |" not in text


def test_spans_of_a_trace_lie_inside_each_other_or_apart(tmp_path: Path) -> None:
    record = served(tmp_path).record()
    # two wait for one lock, and the second longer
    waits = "fake:0 compute lock waits"
    last = max(s.end_ns for s in record.spans)
    crossing = (
        span(waits, "a", last // MS + 1, last // MS + 4),
        span(waits, "b", last // MS + 2, last // MS + 6),
    )
    spans = (*record.spans, *crossing)
    events = chrome_trace.trace(RunRecord("t", spans))["traceEvents"]
    drawn = [e for e in events if e["ph"] == "X"]
    assert len(drawn) == len(spans)
    by_thread: dict[int, list[tuple[float, float]]] = {}
    for e in drawn:
        by_thread.setdefault(e["tid"], []).append((e["ts"], e["ts"] + e["dur"]))
    for own in by_thread.values():
        for a, b in own:
            assert all(
                d <= a or c >= b or (a <= c and d <= b) or (c <= a and b <= d) for c, d in own
            )
    lanes = [e["args"]["name"] for e in events if e["name"] == "thread_name"]
    assert lanes[0] == "fake:0 mem lock" and lanes.count(waits) >= 2


def test_memory_and_profiled_kernels_are_drawn(tmp_path: Path) -> None:
    spans = partition(0, "cuda:0", 0, 100)
    record = RunRecord(
        "t",
        tuple(spans),
        device=heard(spans, "cuda:0"),
        planned={"witness": 3 << 30},
        vram=(VramSample(80 * MS, "cuda:0", DeviceMemory(1 << 30, 2 << 30)),) * 2,
        profiled=(ProfiledWindow("cuda:0", (120 * MS, 150 * MS), ((121 * MS, 125 * MS),), (), 4),),
    )
    lanes, memory = lane_picture.draw(record).figure.axes
    texts = [t.get_text() for t in lanes.texts]
    # 4 of the 30 looked at
    assert texts[:4] == ["cuda:0 kernels", "85.7%", "cuda:0 kernels, profiled", "13.3%"]
    assert [line.get_label() for line in memory.get_lines()][:3] == [
        "reserved",
        "allocated",
        "planned, of the stage",
    ]
    facts = chrome_trace.trace(record)
    assert facts["otherData"]["cuda:0 busy, by kernels"] == "0.1333"
    names = {e["name"] for e in facts["traceEvents"] if e["ph"] == "C"}
    assert {"cuda:0 memory, MiB", "cuda:0 planned, MiB"} <= names
    json.dumps(facts)


def test_what_comes_before_the_workers_is_not_shown() -> None:
    before, after = span("host", "make key", 0, 60), span("host", "verify", 285, 290)
    spans = [before, *partition(0, "cuda:0", 0, 100), *partition(1, "cuda:0", 1, 200), after]
    early = (span("elsewhere", "load torch", 0, 50),)
    canvas = lane_picture.draw(RunRecord("t", (*spans, *early)))
    (lanes,) = canvas.figure.axes
    start, end = min(s.start_ns for s in spans[1:]), max(s.end_ns for s in spans)
    # seconds since the run's start all the same, and a hundredth beside the last
    shown = end - start
    assert lanes.get_xlim() == pytest.approx((start / 1e9, (end + 0.01 * shown) / 1e9))
    texts = [t.get_text() for t in lanes.texts]
    share = 5 * MS / shown
    assert "elsewhere" not in texts and texts[texts.index("host") + 1] == f"{share:.1%}"


@pytest.mark.parametrize("draw", [lane_picture.draw, gantt.draw])
def test_all_that_is_said_at_the_top_is_in_the_picture(
    draw: Callable[[RunRecord], FigureCanvasAgg],
) -> None:
    facts = {f"fact {k}": "of some length" for k in range(12)}
    for n in (0, 12):
        record = RunRecord(
            "t", tuple(partition(0, "cuda:0", 0, 100)), facts=dict([*facts.items()][:n])
        )
        figure = draw(record).figure
        written = "   ".join(t.get_text() for t in figure.texts)
        assert all(fact in written for fact in record.facts)
        page = figure.bbox
        boxes = [t.get_window_extent() for t in figure.texts]
        assert all(box.x0 > page.x0 and box.x1 < page.x1 and box.y1 < page.y1 for box in boxes)
        # nothing is written over the first row
        assert min(box.y0 for box in boxes) > figure.axes[0].get_window_extent().y1


class OneGauge:
    """A device that is asked for nothing but its name."""

    def __init__(self, lane: str) -> None:
        self.lane = lane

    def idle(self) -> None: ...

    def mark(self) -> OneGauge:
        return self

    def synchronize(self) -> None: ...

    def elapsed_time(self, other: OneGauge) -> float:
        assert other is self, "one device's clock knows nothing of another's"
        return 0.0

    def most_memory(self) -> DeviceMemory:
        return DeviceMemory(1, 2)


def test_a_span_is_of_the_device_that_its_thread_works_on() -> None:
    current = threading.local()
    names = ("cuda:0", "cuda:1")
    clocks = DeviceClocks({n: DeviceClock(OneGauge(n)) for n in names}, lambda: current.device)
    watched = Timeline(on_open=clocks.opened, on_close=clocks.closed)

    def work(name: str) -> None:
        current.device = name
        with watched.on_lane(f"{name} partition 0").span("witness"):
            pass

    for name in (*names, "cuda:2"):
        thread = threading.Thread(target=work, args=(name,), name=f"{name} worker 4")
        thread.start()
        thread.join()
    found = clocks.take()
    assert [(d.of.lane, d.span.lane) for d in found] == [
        (f"{n} partition 0", f"{n} kernels, worker 4") for n in names
    ]
    assert [d.device for d in found] == list(names) and clocks.fault is None
    assert [s.device for s in clocks.take_samples()] == ["cuda:0"] * 2 + ["cuda:1"] * 2
