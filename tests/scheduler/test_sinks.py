"""What a run leaves behind: stages, trace, events, picture; and what a broken disk does to it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from child_environment import run_python
from torchzk.errors import InputError, ProofError
from torchzk.scheduler import chrome_trace, gantt, sinks
from torchzk.scheduler.sinks import open_run, timeline
from torchzk.scheduler.stages import MemorySample, RunRecord, stages_of
from torchzk.timeline import Span, Timeline

MS = 1_000_000
SPANS = (
    Span("host", "b_g1", 11 * MS, 15 * MS),
    Span("host", "b_g2", 15 * MS, 20 * MS),
    Span("host", "key", 10 * MS, 20 * MS),
    Span("partition 0", "witness", 20 * MS, 21 * MS),
    Span("partition 0", "msm h", 21 * MS, 31 * MS),
    Span("partition 1", "witness", 31 * MS, 33 * MS),
    Span("host", "verify", 33 * MS, 34 * MS, failed=True),
    Span("host", "verify", 34 * MS, 36 * MS),
)
RECORD = RunRecord(
    "prove window-2KiB",
    SPANS,
    (MemorySample(10 * MS, 100 << 20), MemorySample(20 * MS, 300 << 20)),
    peak_rss=300 << 20,
    facts={"device": "cpu", "outcome": "a | b"},
)


def ignore(_: str) -> None:
    """A listener that does not care."""


def test_stages_nest_by_interval_and_gather_by_name() -> None:
    stages = [(s.lane, s.path, len(s.spans), round(s.seconds * 1000)) for s in stages_of(SPANS)]
    assert stages == [
        ("host", ("key",), 1, 10),
        ("host", ("key", "b_g1"), 1, 4),
        ("host", ("key", "b_g2"), 1, 5),
        ("host", ("verify",), 2, 3),
        ("partition 0", ("witness",), 1, 1),
        ("partition 0", ("msm h",), 1, 10),
        ("partition 1", ("witness",), 1, 2),
    ]
    assert [s.failed for s in stages_of(SPANS)] == [False] * 3 + [True] + [False] * 3
    assert RECORD.seconds == 0.026


def test_nothing_has_no_stages() -> None:
    assert stages_of([]) == []
    assert RunRecord("t", ()).seconds == 0


def test_trace_is_complete_events_on_named_threads(tmp_path: Path) -> None:
    chrome_trace.write_trace(RECORD, tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    names = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
    assert list(names.values()) == ["host", "partition 0", "partition 1"]
    assert [e["args"]["name"] for e in events if e["name"] == "process_name"] == [RECORD.title]
    complete = [e for e in events if e["ph"] == "X"]
    got = {(names[e["tid"]], e["name"], e["ts"], e["dur"]) for e in complete}
    assert got == {
        (s.lane, s.name, (s.start_ns - 10 * MS) / 1000, (s.end_ns - s.start_ns) / 1000)
        for s in SPANS
    }
    assert [e["args"].get("failed", False) for e in complete].count(True) == 1
    counters = [(e["ts"], e["args"]["MiB"]) for e in events if e["ph"] == "C"]
    assert counters == [(0, 100), (10_000, 300)]


def test_picture_has_a_row_a_stage_and_grows_with_them() -> None:
    small = gantt.pixels(gantt.draw(RunRecord("t", SPANS[:1])))
    large = gantt.pixels(gantt.draw(RECORD))
    assert small.shape[1:] == large.shape[1:] == (1210, 3)
    assert large.shape[0] > small.shape[0]
    # something is drawn: white, text and bars
    assert len({tuple(p) for p in large.reshape(-1, 3)[::7].tolist()}) > 20
    texts = {t.get_text().strip() for t in gantt.draw(RECORD).figure.axes[0].texts}
    assert {"key", "b_g1", "verify  x2", "witness", "host", "partition 1", "failed"} <= texts


def test_picture_of_many_lanes_stays_a_picture() -> None:
    spans = [
        Span(f"partition {i}", name, (10 * i + j) * MS, (10 * i + j + 1) * MS)
        for i in range(126)
        for j, name in enumerate(("witness", "quotient", "msm h", "msm l"))
    ]
    picture = gantt.pixels(gantt.draw(RunRecord("t", tuple(spans))))
    assert picture.shape[0] < 5000


def test_a_run_leaves_readable_events(tmp_path: Path) -> None:
    with open_run(tmp_path / "runs", "prove window-2KiB", pytest.fail, {"device": "cpu"}) as run:
        watched = timeline(run)
        with watched.span("one"), watched.span("two"):
            pass
        with watched.on_lane("partition 0").span("msm h"):
            pass
    folder = run.folder()
    assert folder is not None
    assert folder.parent == tmp_path / "runs"
    kinds = sorted(path.name.partition(".")[0] for path in folder.iterdir())
    assert kinds == ["events", "timeline", "trace"]
    events = EventAccumulator(str(folder))
    events.Reload()
    tags = events.Tags()
    assert {"seconds/host/one", "seconds/host/one/two", "seconds/partition_0/msm_h"} <= set(
        tags["scalars"]
    )
    assert tags["images"] == ["timeline"]
    recorded = {span.name: span.seconds for span in run.spans}
    assert events.Scalars("seconds/host/one")[0].value == pytest.approx(recorded["one"], rel=1e-6)
    memory = events.Scalars("memory/rss_mib")
    assert len(memory) == 6
    assert [m.wall_time for m in memory] == sorted(m.wall_time for m in memory)
    assert memory[-1].wall_time < events.Scalars("run/seconds")[0].wall_time
    assert events.Scalars("run/peak_rss_mib")[0].value > 10
    (text,) = events.Tensors("run/text_summary")
    assert "| host | one / two |" in text.tensor_proto.string_val[0].decode()


def test_a_failed_run_is_flushed_and_says_so(tmp_path: Path) -> None:
    def fail() -> None:
        with open_run(tmp_path, "t", pytest.fail, {}) as run, timeline(run).span("stage"):
            raise ProofError("no")

    with pytest.raises(ProofError):
        fail()
    (folder,) = tmp_path.iterdir()
    trace = json.loads((folder / "trace.json").read_text())
    assert trace["otherData"] == {"outcome": "ProofError"}
    assert trace["traceEvents"][-2]["ph"] == "C"
    assert [e["args"] for e in trace["traceEvents"] if e["ph"] == "X"] == [{"failed": True}]


def test_a_refused_input_leaves_nothing(tmp_path: Path) -> None:
    def refuse() -> None:
        with open_run(tmp_path / "runs", "t", pytest.fail, {}) as run, timeline(run).span("s"):
            raise InputError("no")

    with pytest.raises(InputError):
        refuse()
    assert not (tmp_path / "runs").exists()


def test_two_runs_never_share_a_folder(tmp_path: Path) -> None:
    folders = set()
    for _ in range(3):
        with open_run(tmp_path, "t", pytest.fail, {}) as run:
            folders.add(run.folder())
    assert len(folders) == 3


def test_no_place_for_runs_costs_a_warning(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    warnings: list[str] = []
    with open_run(tmp_path / "file" / "runs", "t", warnings.append, {}) as run:
        assert run.folder() is None
        assert run.folder() is None
    (warning,) = warnings
    assert "no timeline is kept" in warning and "file/runs" in warning


def test_a_disk_that_hangs_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read, write = os.pipe()

    def hang(*_: object) -> None:
        os.read(read, 1)

    monkeypatch.setattr(chrome_trace, "write_trace", hang)
    monkeypatch.setattr(sinks, "_PATIENCE", 0.05)
    warnings: list[str] = []
    with open_run(tmp_path, "t", warnings.append, {}):
        pass
    assert "given up" in warnings[0]
    os.close(write)


FULL_DISK = """
import resource, signal, sys
from pathlib import Path
from torchzk.scheduler.sinks import open_run, timeline
# opening and naming files works, not one byte can be written to them
resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
with open_run(Path(sys.argv[1]), "t", print, {}) as run, timeline(run).span("s"):
    pass
print("done")
"""


def test_a_full_disk_costs_a_warning(tmp_path: Path) -> None:
    done = run_python("-c", FULL_DISK, tmp_path)
    assert done.returncode == 0, done.stderr
    first, last = done.stdout.splitlines()
    assert "the timeline is incomplete: ResourceError" in first and "full" in first
    assert last == "done"
    assert [path.name for path in next(tmp_path.iterdir()).iterdir()] == []


def test_every_watcher_hears_everything(tmp_path: Path) -> None:
    heard: list[object] = []
    watcher = Timeline(on_close=heard.append, on_open=heard.append, on_advance=heard.append)
    with open_run(tmp_path, "t", ignore, {}) as run:
        watched = timeline(run, watcher, watcher)
        with watched.span("a"):
            watched.advance(0.5)
        run.spans.clear()
    assert heard[:4] == ["a", "a", 0.5, 0.5]
    assert [span.name for span in heard[4:] if isinstance(span, Span)] == ["a", "a"]
