"""Sweeps over schedules: their flags, their rows, what the simulator says, table and picture."""

from __future__ import annotations

import hashlib
import io
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from fake_devices import FakeDevice, FakeJob, FakePartition, Referee, Script, setups, watchdog
from timeline_samples import heard, partition, span
from torchzk.bench.__main__ import run as bench
from torchzk.bench.proof_cases import PROOFS
from torchzk.bench.sweep import Proven, Row, sweep
from torchzk.bench.sweep_cases import Grid, Setting, repeats
from torchzk.bench.sweep_measures import Times, figures_of, steady_pace, times_in, times_of
from torchzk.bench.sweep_prediction import predict
from torchzk.bench.sweep_table import draw, print_sweep, write_picture
from torchzk.errors import ResourceError
from torchzk.scheduler.policies import POLICIES
from torchzk.scheduler.service import Limits, Service
from torchzk.scheduler.sinks import open_run, timeline
from torchzk.scheduler.stages import RunRecord
from torchzk.scheduler.worker_device import Device
from torchzk.timeline import Timeline

GB = 10**9
SECONDS = {"witness": 0.004, "msm h": 0.012}
HOST = {"prepare": 0.003, "stage": 0.002, "finish": 0.003}


def test_a_grid_is_all_of_it_and_moves_the_key_once() -> None:
    settings = Grid(limits=(24 * GB, None, 48 * GB), residencies=("host", "device")).settings()
    assert len(set(settings)) == len(settings) == 4 * 4 * 4 * 3 * 2
    places = list(dict.fromkeys(s.place for s in settings))
    assert places == [(r, n) for r in ("device", "host") for n in (None, 48 * GB, 24 * GB)]
    assert [s.place for s in settings] == [p for p in places for _ in range(64)]


def test_more_workers_than_partitions_in_work_are_not_tried() -> None:
    settings = Grid(limits=(None, GB)).settings()
    found = repeats(settings, 1, None)
    # of each place and policy 1 + 2 + 3 + 4 are left
    assert len(settings) - len(found) == 2 * 4 * 10
    assert all(first == replace(s, workers=s.in_flight) for s, first in found.items())
    assert all(s.workers > s.in_flight for s in found) and not found.keys() & found.values()
    # two partitions each, of two sectors at most
    found = repeats(settings, 2, 2)
    assert {(s.in_flight, s.workers, first.workers) for s, first in found.items()} == {
        (1, 3, 2),
        (1, 4, 2),
    }
    # those of fewer workers are not among these, so the fewest there are stand for them
    some = Grid(("whole",), (4, 3), (1,)).settings()
    assert repeats(some, 1, 8) == {some[0]: some[1]}
    assert repeats(settings, 10, None) == {}


def test_partitions_of_a_circuit_are_those_of_its_job() -> None:
    by_name = {p.short: p for p in PROOFS}
    assert [by_name[n].partitions_of(None) for n in ("porep8m", "porep32g", "update32g")] == [
        1,
        10,
        16,
    ]
    assert [by_name[n].partitions_of(None) for n in ("window32g", "winning2k")] == [1, 1]
    assert [by_name["porep32g"].partitions_of(n) for n in (1, 64)] == [1, 10]


def test_flags_choose_a_part(capsys: pytest.CaptureFixture[str]) -> None:
    flags = ["--policies", "two-locks,whole", "--workers", "2", "--in-flight", "1,3"]
    assert bench(["sweep", "porep8m", *flags, "--limits", "48,none", "--list"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"{p}, 2 workers, {f} in flight, key on device{limit}"
        for limit in ("", ", 48 GB")
        for f in (1, 3)
        for p in ("two-locks", "whole")
    ]


def test_the_list_says_what_is_not_run(capsys: pytest.CaptureFixture[str]) -> None:
    flags = ["--policies", "whole", "--workers", "1,2", "--in-flight", "1", "--list"]
    names = [f"whole, {n}, 1 in flight, key on device" for n in ("1 worker", "2 workers")]
    for circuits, said in (
        (["porep8m"], ": as 1 worker"),
        (["porep8m", "porep32g"], ": as 1 worker (porep8m)"),
        (["porep32g"], ""),
    ):
        assert bench(["sweep", *circuits, *flags]) == 0
        assert capsys.readouterr().out.splitlines() == [names[0], names[1] + said]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing"], "no circuit is called nothing; there are porep32g"),
        (["--policies", "three-locks"], "three-locks is none of whole, kernels, ahead, two-locks"),
        (["--workers", "0"], "0 is no number from 1 to 64"),
        (["--limits", "24GB"], "24GB is neither none nor a number"),
        (["--residency", "disk"], "disk is none of device, host"),
        (["--seconds", "-1"], "must be seconds above 0"),
    ],
)
def test_wrong_flags_are_refused(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert bench(["sweep", *arguments]) == 2
    assert message in capsys.readouterr().err


class TimedPartition(FakePartition):
    """One whose stages take so long."""

    stages: Timeline
    scale: float

    def compute(self, check: Callable[[], None]) -> None:
        for name, seconds in SECONDS.items():
            with self.stages.span(name):
                time.sleep(self.scale * seconds)
        super().compute(check)


class TimedJob(FakeJob):
    run: Timeline
    scale: float

    def partition(self, index: int, device: Device, timeline: Timeline) -> TimedPartition:
        assert isinstance(device, FakeDevice)
        part = TimedPartition(self, index, device)
        part.scale = self.scale
        part.stages = self.run.on_lane(f"{self.name} partition {index}")
        return part


@dataclass
class FakeProver:
    """Proves nothing on a device that sleeps, through the real service and the real timeline."""

    runs: Path
    circuit: str = "porep8m"
    log_n: int = 22
    prepared: list[Setting] = field(default_factory=list)
    digest: bytes = b"x"
    scale: float = 1.0
    """How much longer everything takes."""

    def prepare(self, setting: Setting) -> None:
        self.prepared.append(setting)
        if setting.limit == GB:
            raise ResourceError("it does not fit")

    def prove(self, setting: Setting, sectors: int) -> Proven:
        with open_run(self.runs, setting.name, pytest.fail, {}) as run, watchdog():
            # nobody looks at them, and to draw takes seconds
            run.drawn = False
            start, watched = time.perf_counter_ns(), timeline(run)
            devices = setups(FakeDevice("fake:0"), workers=setting.workers)
            limits = Limits(proving=setting.in_flight)
            policy, behind = POLICIES[setting.policy], watched.backstage
            with Service(devices, policy, behind, limits) as service:
                host = {step: self.scale * seconds for step, seconds in HOST.items()}
                for k in range(sectors):
                    job = TimedJob(f"s{k}", Script(3, seconds=host), Referee())
                    job.run, job.scale = watched, self.scale
                    service.submit(job.name, job)
            record = run.record()
        return Proven(record, start, 3, frozenset([hashlib.sha256(self.digest).digest()]))


def swept(
    prover: FakeProver,
    settings: list[Setting],
    seconds: float | None = None,
    seen: Sequence[bytes] = (),
) -> tuple[list[Row], list[str]]:
    rows: list[Row] = []
    warnings: list[str] = []
    left_out = sweep(
        prover,
        settings,
        sectors=3,
        seconds=seconds,
        emit=rows.append,
        warn=warnings.append,
        advance=lambda _: None,
        seen=seen,
    )
    return rows, warnings + [s.name for s in left_out]


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> list[Row]:
    prover = FakeProver(tmp_path_factory.mktemp("runs"))
    settings = [Setting(p, w, 2) for p in POLICIES for w in (1, 2)]
    found, said = swept(prover, settings)
    # of one place, so prepared once
    assert said == [] and prover.prepared == settings[:1]
    return found


def test_a_row_a_setting_with_what_was_measured(rows: list[Row]) -> None:
    assert [(r["policy"], r["workers"]) for r in rows] == [(p, w) for p in POLICIES for w in (1, 2)]
    json.dumps(rows)
    for row in rows:
        assert row["right"] and row["partitions"] == 3 and row["sectors"] == 3
        # sleeping takes at least as long as it was told to
        least = 9 * sum(SECONDS.values())
        assert row["seconds"] > least and 0 < row["busy"] < 1
        assert set(row["stages_ms"]) == set(SECONDS)
        assert all(row["stages_ms"][name] >= 1e3 * s for name, s in SECONDS.items())
        assert row["steps_ms"]["prepare"] >= 3 and row["steps_ms"]["finish"] >= 3
        assert row["stations_ms"].keys() == {"reading", "checking", "finishing"}
        assert set(row["locks"]) == {"fake:0 mem lock", "fake:0 compute lock"}
        assert row["trims"] == 0 and row["most_promised_bytes"] in (10, 10 * row["workers"])
        assert row["predicted_ratio"] == row["predicted_seconds_a_proof"] / row["seconds_a_proof"]
        # and the times of the first say something of all others
        said = predict(times_in(rows[0]), Setting(row["policy"], row["workers"], 2), 3, 3)
        foretold = None if row is rows[0] else pytest.approx(said.seconds_a_proof)
        assert row["foretold_seconds_a_proof"] == foretold
        assert (row["foretold_ratio"] is None) == (row is rows[0])


def disagrees(row: Row) -> bool:
    """Whether a schedule, simulated with times of its very run, is not busy for the same share."""
    most = 10 * row["workers"]
    return not 0.8 < row["predicted_busy_ratio"] < 1.25 or row["most_promised_bytes"] != most


def test_what_is_measured_is_what_is_simulated(rows: list[Row], tmp_path: Path) -> None:
    found = {Setting(r["policy"], r["workers"], 2): r for r in rows}
    one_lock, two_locks = Setting("whole", 2, 2), Setting("two-locks", 2, 2)
    scale = 1.0
    while True:
        again = {setting for setting, row in found.items() if disagrees(row)}
        # under one lock nothing of the host hides, whoever works
        if found[one_lock]["busy"] >= found[two_locks]["busy"]:
            again |= {one_lock, two_locks}
        if not again:
            break
        # a machine that is busy with others keeps sleepers waiting: less so, the longer they sleep
        scale *= 2
        assert scale <= 32, [found[setting] for setting in again]
        for setting in again:
            ((found[setting],), _) = swept(FakeProver(tmp_path, scale=scale), [setting])


def test_other_bytes_are_wrong_and_what_does_not_fit_is_said(tmp_path: Path) -> None:
    prover = FakeProver(tmp_path)
    settings = [Setting("whole", 1, 1), Setting("whole", 1, 1, "device", GB)]
    found, said = swept(prover, settings)
    assert [r["right"] for r in found] == [True, False]
    assert found[1]["error"] == "ResourceError: it does not fit" and "does not fit" in said[0]
    prover.digest = b"y"
    two = [Setting("whole", 1, 1), Setting("whole", 2, 1)]
    proofs = iter((b"x", b"y"))
    real = prover.prove

    def prove(setting: Setting, sectors: int) -> Proven:
        prover.digest = next(proofs)
        return real(setting, sectors)

    prover.prove = prove  # type: ignore[method-assign]
    found, _ = swept(prover, two)
    assert [r["right"] for r in found] == [True, False]
    # those of rows that were there before count
    prover.prove = real  # type: ignore[method-assign]
    digests = [hashlib.sha256(one).digest() for one in (b"y", b"x")]
    right = [swept(prover, two[:1], seen=[one])[0][0]["right"] for one in digests]
    assert right == [True, False]


def test_what_would_end_too_late_is_left_out(tmp_path: Path) -> None:
    settings = [Setting("whole", w, 1) for w in (1, 2, 3)]
    found, said = swept(FakeProver(tmp_path), settings, seconds=0.25)
    # a setting takes a quarter of a second alone
    assert [r["workers"] for r in found] == [1] and said == [s.name for s in settings[1:]]


@pytest.mark.parametrize("clocked", [False, True])
def test_waits_for_the_key_are_a_share_of_the_devices_time(clocked: bool) -> None:
    spans = [*partition(0, "cuda:0", 0, 100), *partition(1, "cuda:0", 1, 200)]
    device = heard(spans, "cuda:0") if clocked else ()
    record = RunRecord("t", tuple(spans), device=device)
    figures = figures_of(record, 0, 2, 1)
    # of two partitions 10 ms each, in the time from the first witness at 110 to the last sum at 280
    assert figures["waited_for_key_s"] == pytest.approx(0.02)
    assert figures["waited_for_key_share"] == pytest.approx(20 / 170)
    assert "wait for uploads" not in figures["stages_ms"]


def test_a_device_that_has_nothing_left_to_do_is_not_busy() -> None:
    spans = [*partition(0, "cuda:0", 0, 100), *partition(1, "cuda:1", 0, 200)]
    halves = (heard(spans[:14], "cuda:0"), heard(spans[14:], "cuda:1"))
    record = RunRecord("t", tuple(spans), device=halves[0] + halves[1])
    figures = figures_of(record, 0, 2, 1)
    # 60 of 170 ms each, though of 70 ms of its own
    assert figures["busy"] == pytest.approx(60 / 170) and figures["busy_window_s"] == 0.17


def test_ends_are_the_first_sectors_stations_and_the_last_ones_finish() -> None:
    spans = [
        *(span("reading 0", "reading", k, k + 3 + k) for k in (0, 10)),
        *(span("checking 0", "checking", 20 + k, 24 + 2 * k) for k in (0, 10)),
        *(span("finishing 0", "finishing", 200 + k, 207 + 3 * k) for k in (0, 10)),
    ]
    spans += partition(0, "cuda:0", 0, 100)
    times = times_of(RunRecord("t", tuple(reversed(spans))))
    assert times.ends == pytest.approx((3 + 4 + 27) / 1e3)
    assert times.stations["reading"] == pytest.approx((3 + 13) / 2e3)
    row = figures_of(RunRecord("t", tuple(spans)), 0, 2, 1)
    assert times_in(row) == times
    # rows of before ends were kept have their means
    assert times_in({k: v for k, v in row.items() if k != "ends_ms"}).ends is None


def test_the_steady_pace_leaves_out_the_ends() -> None:
    ends = [10.0, 13, 15, 17, 19, 30]
    assert steady_pace(ends, 1) == (19 - 10) / 4
    assert steady_pace(ends, 2) == (17 - 13) / 2
    assert steady_pace(ends, 3) is None
    assert steady_pace([], 1) is None


def test_a_prediction_of_what_can_be_added_up() -> None:
    steps = {"prepare": 1.0, "admit": 0.25, "stage": 0.25, "compute": 5.0, "finish": 1.5}
    times = Times({"a": 1.0, "b": 3.0}, steps, {"reading": 2.0, "checking": 1.0, "finishing": 0.5})
    assert times.between == 1.0
    alone = predict(times, Setting("whole", 1, 1), partitions=2, sectors=4)
    # 8 partitions of 1 + 0.5 + 5 + 1.5, and the stations at both ends
    assert alone.seconds_a_proof == pytest.approx((8 * 8 + 3.5) / 4)
    # kernels are 4 of 8 seconds, between the first and the last
    assert alone.busy == pytest.approx(8 * 4 / (8 * 8 - 3))
    # staging comes after the preparation, not beside it
    ahead = predict(times, Setting("ahead", 1, 1), partitions=2, sectors=4)
    assert ahead.seconds_a_proof == pytest.approx((8 * 8 + 3.5) / 4)
    hidden = predict(times, Setting("two-locks", 2, 2), partitions=2, sectors=4)
    assert hidden.steady_seconds_a_proof == pytest.approx(2 * 5)
    assert hidden.busy == pytest.approx(4 / 5)
    # at the ends nobody else is at work: those are told apart from the means
    cut = predict(replace(times, ends=1.5), Setting("whole", 1, 1), partitions=2, sectors=4)
    assert cut.seconds_a_proof == pytest.approx((8 * 8 + 1.5) / 4)
    assert (cut.busy, cut.steady_seconds_a_proof) == (alone.busy, alone.steady_seconds_a_proof)
    # a station that is slower than the device sets the pace
    slow = Times(times.stages, steps, {"reading": 50.0})
    assert predict(slow, Setting("two-locks", 2, 2), 2, 4).steady_seconds_a_proof == 50


def test_table_and_picture(rows: list[Row], tmp_path: Path) -> None:
    error = {**rows[0], "limit": GB, "right": False, "error": "ResourceError: no"}
    console = Console(file=io.StringIO(), width=80)
    short = {**rows[0], "replanned": True}
    print_sweep(console, [*rows, short, {k: v for k, v in error.items() if k != "busy"}])
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "porep8m, 2^22, key on the device, all memory" in text
    assert "porep8m, 2^22, key on the device, 1 GB" in text and "ResourceError" in text
    assert (text.count("replanned"), text.count("same bytes")) == (1, len(rows))
    assert f"{rows[0]['busy']:.1%}" in text and "…" not in text
    # what was not run has no line but one in the foot of its place
    console = Console(file=io.StringIO(), width=80)
    settings = Grid(("whole",), in_flight=(1, 2)).settings()
    print_sweep(console, [*rows, error], {"porep8m": repeats(settings, 1, None)})
    foot = "2, 3 and 4 as 1 with 1 in flight; 3 and 4 as 2 with 2 in flight"
    assert " ".join(console.file.getvalue().split()).count(foot) == 1  # type: ignore[attr-defined]
    figure = draw(rows).figure
    assert [a.get_title() for a in figure.axes] == ["2 in flight", ""]
    lines = {line.get_label(): line for line in figure.axes[0].get_lines()}
    by_policy = [r["seconds_a_proof"] for r in rows if r["policy"] == "two-locks"]
    assert np.array_equal(lines["two-locks"].get_ydata(), by_policy)
    assert write_picture(rows, tmp_path / "a.png") and (tmp_path / "a.png").exists()
    assert not write_picture([{"error": "x"}], tmp_path / "b.png")


@pytest.mark.full("a minute: proofs of a 2 KiB window PoSt, by two workers")
def test_real_proofs_on_a_cpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    flags = ["--policies", "two-locks", "--workers", "2", "--in-flight", "2", "--sectors", "2"]
    assert bench(["sweep", "window2k", *flags, "--device", "cpu", "--backend", "torch"]) == 0
    (row,) = [json.loads(x) for x in Path("runs/bench/sweep.jsonl").read_text().splitlines()]
    assert row["right"] and row["log_n"] == 15 and row["partitions"] == 1
    assert len(row["proof_sha256"]) == 1 and 0.5 < row["busy"] <= 1
    assert {"witness", "quotient", "msm h"} <= row["stages_ms"].keys()
    folder = Path(row["run"])
    assert (folder / "lanes.png").exists() and Path("runs/bench/sweep.png").exists()
