from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from torchzk.config import RunsLimit
from torchzk.errors import ConfigError
from torchzk.scheduler.lanes import promised
from torchzk.serving.metrics import Metrics
from torchzk.serving.serve_config import load_serve_config
from torchzk.serving.timelines import Timelines
from torchzk.timeline import Span, Timeline


def traces(runs: Path) -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in sorted(runs.glob("*/trace.json"))]


def names(trace: dict[str, Any]) -> list[str]:
    return [event["name"] for event in trace["traceEvents"] if event["ph"] == "X"]


def test_every_span_is_in_a_trace_and_in_the_metrics(tmp_path: Path) -> None:
    metrics = Metrics()
    heard = Timeline(on_close=metrics.on_span, on_level=metrics.on_level)
    with Timelines(tmp_path, RunsLimit(count=3), 60.0, pytest.fail) as written:
        timeline = written.timeline(heard)
        with timeline.on_lane("cuda:0 worker 0").span("witness"):
            timeline.level(promised("cuda:0"), 1 << 20)
        timeline.backstage.on_close(Span("cuda:0 compute lock waits", "x", 0, 5))
    (trace,) = traces(tmp_path)
    assert names(trace) == ["x", "witness"]
    assert any(event["ph"] == "C" and event["args"] == {"MiB": 1} for event in trace["traceEvents"])
    text = metrics.text()
    assert 'torchzk_stage_seconds_count{stage="witness"} 1.0' in text
    assert "torchzk_lock_wait_seconds_count{" in text
    (folder,) = tmp_path.iterdir()
    # no pictures, which take a second of everybody's
    assert sorted(path.name.partition(".")[0] for path in folder.iterdir()) == ["events", "trace"]
    events = EventAccumulator(str(folder))
    events.Reload()
    assert "run/seconds" in events.Tags()["scalars"]


def test_periods_are_written_and_the_oldest_go(tmp_path: Path) -> None:
    with Timelines(tmp_path, RunsLimit(count=2), 0.05, pytest.fail) as written:
        timeline, until = written.timeline(Timeline()), time.monotonic() + 120
        seen: set[str] = set()
        for number in range(10_000):
            with timeline.span(f"stage {number}"):
                time.sleep(0.01)
            seen |= {path.name for path in tmp_path.iterdir()}
            if len(seen) >= 5 or time.monotonic() > until:
                break
        assert len(seen) >= 5
    assert len(list(tmp_path.iterdir())) == 2
    # the last to be written is there
    assert names(traces(tmp_path)[-1])[-1] == f"stage {number}"


def test_a_service_that_does_nothing_writes_nothing(tmp_path: Path) -> None:
    with Timelines(tmp_path / "runs", RunsLimit(count=2), 0.01, pytest.fail):
        time.sleep(0.1)
    assert not (tmp_path / "runs").exists()


def test_under_load_a_period_is_cut(tmp_path: Path) -> None:
    threads, each, most = 4, 500, 300
    with Timelines(tmp_path, RunsLimit(count=2), 60.0, pytest.fail, most_spans=most) as written:
        timeline = written.timeline(Timeline())

        def work(number: int) -> None:
            for _ in range(each):
                with timeline.on_lane(f"cpu worker {number}").span("s"):
                    pass

        workers = [threading.Thread(target=work, args=(k,)) for k in range(threads)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    (trace,) = traces(tmp_path)
    assert len(names(trace)) == most
    every = threads * each
    assert trace["otherData"]["left out"] == f"{every - most} of {every} spans and levels"


def test_a_folder_that_cannot_be_made_costs_a_warning(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    warnings: list[str] = []
    runs = tmp_path / "file"
    with Timelines(runs, RunsLimit(count=2), 60.0, warnings.append) as written:
        written.timeline(Timeline()).on_close(Span("host", "s", 0, 1))
    assert len(warnings) == 1 and "no timeline is kept" in warnings[0]


CONFIG = """
circuits: [{kind: window, sector_size: 2KiB, keys: dev}]
data: data
"""


def test_what_a_service_keeps_is_bounded(tmp_path: Path) -> None:
    path = tmp_path / "serve.yaml"
    path.write_text(CONFIG)
    config = load_serve_config(path)
    assert config.runs is None
    assert config.runs_limit == RunsLimit(count=144, size=1 << 30)
    path.write_text(CONFIG + "runs: traces\nruns_every: 30s\nruns_limit: {count: 5}\n")
    config = load_serve_config(path)
    assert config.runs == tmp_path / "traces"
    assert (config.runs_every, config.runs_limit) == (30.0, RunsLimit(count=5))


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("runs_limit: {}", "runs_limit: give count or size"),
        ("runs_limit: {count: 0}", "count: must be 1 at least"),
        ("runs_every: 10ms", "runs_every: must be 1s to 86400s"),
        ("runs_every: 10", "is no duration"),
    ],
)
def test_a_config_without_a_bound_is_refused(tmp_path: Path, line: str, why: str) -> None:
    path = tmp_path / "serve.yaml"
    path.write_text(f"{CONFIG}{line}\n")
    with pytest.raises(ConfigError, match=why):
        load_serve_config(path)
