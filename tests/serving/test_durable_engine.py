"""An engine of jobs that are kept: joined, ordered, cancelled, expired, refused."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from fake_devices import gate, proof, until, watchdog
from serving.durable import Rig, at_work, request, rig
from torchzk.errors import (
    ConfigError,
    NotFoundError,
    QueueFullError,
)
from torchzk.scheduler.service import Limits
from torchzk.serving.engine import Engine, JobState, Priority, ProofKind
from torchzk.serving.queue_places import QueueLimits

SLOW = {"compute": 0.3}
BUSY = Limits(submitted=1, read=1, checked=1, proving=1, proved=1)
"""Hardly any places, so that jobs wait in the backlog."""


def turnstile() -> tuple[Callable[[], None], threading.Semaphore, threading.Semaphore]:
    """A hook that says each time it is reached, and lets one through for each release."""
    reached, go = threading.Semaphore(0), threading.Semaphore(0)

    def hook() -> None:
        reached.release()
        assert go.acquire(timeout=120)

    return hook, reached, go


def is_next(made: Rig, name: str) -> bool:
    """Whether a job is read and checked, and has a place: the next worker may take it."""
    service = made.service
    with service._monitor:
        if name in [job.name for job in service._pool._entries]:
            return True
        checked = {job.name: job.priority for job in service._checked}
        # those that are proved are on their way to their finish
        return name in checked and service._proved.room(checked[name])


def test_an_engine_it_is(tmp_path: Path) -> None:
    with watchdog(), rig(tmp_path) as r:
        engine: Engine = r.engine
        report = r.run(request("winpost-1000-00ff", ProofKind.WINNING, Priority.CRITICAL, n=3))
        assert report.state is JobState.COMPLETED and report.proof == proof(3)
        assert [part.state for part in report.partitions] == ["done"] * 3
        seconds = report.seconds
        assert seconds.queue_wait + seconds.device <= seconds.total and seconds.total > 0
        again = engine.job(report.job_id)
        assert again.proof == proof(3) and again.seconds == seconds
        assert [job.job_id for job in engine.jobs()] == ["winpost-1000-00ff"]
        assert engine.jobs()[0].proof == b""
        status = engine.status()
        assert status.completed == 1 and status.ready and len(status.devices) == 2
        assert status.pending == status.running == dict.fromkeys(ProofKind, 0)
        assert status.keys[0].circuit_id == "window-2KiB" and status.pinned_bytes == 7
        assert not engine.preload("window-2KiB").already_loaded
        assert engine.evict("window-2KiB").freed_bytes == 7
    assert [e["job_id"] for e in r.events("accepted")] == ["winpost-1000-00ff"]


def test_the_same_request_is_proved_once_and_another_payload_is_another_job(
    tmp_path: Path,
) -> None:
    hook, reached, go = gate()
    with watchdog(), rig(tmp_path) as r:
        r.prover.hooks = {"compute": hook}
        first = r.engine.submit(request("porep-1000-7", n=2, hooked=1))
        assert reached.wait(120)
        joined = r.engine.submit(request("porep-1000-7", n=2, hooked=1))
        assert (joined.job_id, joined.joined) == (first.job_id, True)
        other = r.engine.submit(request("porep-1000-7", n=3))
        assert not other.joined and other.job_id != first.job_id
        go.set()
        assert r.end(first.job_id).proof == proof(2) and r.end(other.job_id).proof == proof(3)
        finished = r.engine.submit(request("porep-1000-7", n=2, hooked=1))
        assert finished.joined and r.end(finished.job_id).proof == proof(2)
        assert len(r.prover.jobs) == 2
        assert r.metric('torchzk_jobs_joined_total{proof_kind="window_post"}') == 2


def test_of_many_equal_requests_at_once_one_is_accepted(tmp_path: Path) -> None:
    with watchdog(), rig(tmp_path) as r:
        ids: list[str] = []
        barrier = threading.Barrier(8)

        def ask() -> None:
            barrier.wait()
            ids.append(r.engine.submit(request("x", n=4, takes=SLOW)).job_id)

        threads = [threading.Thread(target=ask) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert set(ids) == {"x"} and len(ids) == 8
        assert r.end("x").proof == proof(4) and len(r.prover.jobs) == 1


def test_urgent_jobs_go_first_also_out_of_the_backlog(tmp_path: Path) -> None:
    hook, computing, go = turnstile()
    order: list[str] = []
    with watchdog(), rig(tmp_path, places=BUSY, workers=1) as r:
        r.prover.hooks = {"compute": hook}
        r.engine.submit(request("first", n=1, hooked=1))
        assert computing.acquire(timeout=120)
        kinds = [Priority.LOW, Priority.NORMAL, Priority.HIGH, Priority.CRITICAL]
        for k in range(6):
            for priority in kinds:
                name = f"{priority.name} {k}"
                accepted = r.engine.submit(request(name, priority=priority, n=1, k=k, hooked=1))
                r.engine.watch(name, lambda report: order.append(report.job_id))
        assert accepted.queue_position == 5
        assert sum(r.engine.status().pending.values()) == 24
        assert r.engine.status().running[ProofKind.WINDOW] == 1
        assert r.metric("torchzk_queue_oldest_seconds") > 0
        urgent = [f"{name} {k}" for name in ("CRITICAL", "HIGH") for k in range(6)]
        for name in urgent:
            # out of the backlog, read and checked: nothing else is ahead of it then
            until(lambda: is_next(r, name))  # noqa: B023
            go.release()
            assert computing.acquire(timeout=120)
        go.release(24)
        for k in range(6):
            r.end(f"LOW {k}")
        # while the most urgent one is read, another may take the only place before it: no two
        assert order.index("CRITICAL 5") <= 11
        assert [name for name in order if name.endswith("5")] == [
            f"{name} 5" for name in ("CRITICAL", "HIGH", "NORMAL", "LOW")
        ]
        for name in ("CRITICAL", "HIGH", "NORMAL", "LOW"):
            # of two that were proved meanwhile either may be finished first
            assert sorted(j for j in order if j.startswith(name)) == [
                f"{name} {k}" for k in range(6)
            ]
        assert [name.split()[0] for name in order[-4:]] == ["LOW"] * 4


def test_cancel_in_backlog_in_queue_while_running_and_after(tmp_path: Path) -> None:
    hook, reached, go = gate()
    with watchdog(), rig(tmp_path, places=BUSY, workers=1) as r:
        r.prover.hooks = {"compute": hook}
        r.engine.submit(request("running", n=2, hooked=1))
        assert reached.wait(120)
        for k in range(8):
            r.engine.submit(request(f"{k}", n=1, k=k))
        assert not r.engine.cancel("7") and r.end("7").state is JobState.CANCELLED
        assert not r.engine.cancel("0") and r.end("0").state is JobState.CANCELLED
        assert r.engine.cancel("running")
        go.set()
        report = r.end("running")
        assert report.state is JobState.CANCELLED and report.error_type == "CancelledError"
        assert r.end("1").state is JobState.COMPLETED and not r.engine.cancel("1")
        assert r.engine.job("1").state is JobState.COMPLETED
        # what was cancelled may be asked for again
        again = r.engine.submit(request("7", n=1, k=7))
        assert not again.joined and r.end(again.job_id).state is JobState.COMPLETED
        for ask in (r.engine.cancel, r.engine.job, lambda job_id: r.engine.watch(job_id, print)):
            with pytest.raises(NotFoundError, match="there is no job 'nobody\\\\n'"):
                ask("nobody\n")


def test_deadlines_pass_in_the_backlog_and_while_running(tmp_path: Path) -> None:
    hook, reached, go = gate()
    with watchdog(), rig(tmp_path, places=BUSY, workers=1) as r:
        r.prover.hooks = {"compute": hook}
        r.engine.submit(request("running", n=2, seconds=600.0, hooked=1))
        assert reached.wait(120)
        for k in range(6):
            r.engine.submit(request(f"{k}", n=1, seconds=0.3, k=k))
        for k in range(6):
            report = r.end(f"{k}")
            assert (report.state, report.error_type) == (JobState.EXPIRED, "ExpiredError")
        # the scheduler has its deadline, which passes now
        stop = at_work(r, "running").stop
        left = stop.seconds_left()
        assert left is not None and 0 < left <= 600.0
        stop.deadline = time.monotonic()
        go.set()
        assert r.end("running").state is JobState.EXPIRED
        assert r.metric('torchzk_jobs_ended_total{proof_kind="window_post",state="expired"}') == 7


def test_a_failure_is_told_with_its_class_and_may_be_tried_again(tmp_path: Path) -> None:
    with watchdog(), rig(tmp_path) as r:
        for step in ("read", "check", "compute", "end"):
            report = r.run(request(step, n=1, breaks=step))
            assert (report.state, report.error_type) == (JobState.FAILED, "BrokenError")
            assert report.error_message == f"{step} breaks at {step}"
        assert not r.engine.submit(request("read", n=1, breaks="read")).joined
        with pytest.raises(ConfigError):
            r.engine.submit(replace(request("big", n=1), sector_size=8 << 20))
        assert r.metric('torchzk_requests_refused_total{error="ConfigError"}') == 1


def test_watchers_who_leave_or_raise_harm_nobody(tmp_path: Path) -> None:
    hook, reached, go = gate()
    told: list[str] = []

    def hear(name: str, _: object) -> None:
        told.append(name)

    def bad(_: object) -> None:
        raise ValueError("a watcher's own fault")

    made = Rig(tmp_path)
    with watchdog():
        made.prover.hooks = {"compute": hook}
        made.engine.submit(request("x", n=1, hooked=1))
        assert reached.wait(120)
        leave = made.engine.watch("x", lambda _: told.append("left"))
        made.engine.watch("x", bad)
        for k in range(50):
            made.engine.watch("x", partial(hear, f"{k}"))
        leave()
        leave()
        go.set()
        assert made.end("x").state is JobState.COMPLETED
        # who comes later is told at once
        made.engine.watch("x", lambda _: told.append("late"))
        assert told == [*map(str, range(50)), "late"]
        assert [e["message"] for e in made.events("fault")] == ["a watcher's own fault"]
        made.engine.close(0)


def test_limits_of_jobs_and_of_bytes_with_the_numbers(tmp_path: Path) -> None:
    hook, _, go = gate()
    limits = QueueLimits(jobs=3, payload_bytes=200)
    with watchdog(), rig(tmp_path, limits=limits) as r:
        r.prover.hooks = {"compute": hook}
        for k in range(3):
            r.engine.submit(request(f"{k}", n=1, hooked=1, k=k))
        with pytest.raises(QueueFullError, match="3 jobs of class rest have not ended, 3 may be"):
            r.engine.submit(request("3", n=1))
        # joining takes no place, and another class has places of its own
        assert r.engine.submit(request("0", n=1, hooked=1, k=0)).joined
        r.engine.submit(request("urgent", priority=Priority.CRITICAL, n=1))
        with pytest.raises(QueueFullError, match=r"this one 2\d\d, and 200 may be there"):
            r.engine.submit(request("big", priority=Priority.HIGH, n=1, words="x" * 200))
        go.set()
        for k in range(3):
            r.end(f"{k}")
        assert r.run(request("3", n=1)).state is JobState.COMPLETED


def test_an_urgent_job_waits_for_what_is_in_work_and_nothing_else(tmp_path: Path) -> None:
    hook, reached, go = turnstile()
    with watchdog(), rig(tmp_path, workers=1) as r:
        r.prover.hooks = {"compute": hook}
        for k in range(100):
            r.engine.submit(request(f"{k}", n=1, k=k, hooked=1))
        assert reached.acquire(timeout=120)
        r.engine.submit(request("win", ProofKind.WINNING, Priority.CRITICAL, n=1))
        until(lambda: is_next(r, "win"))
        # for the one in work; another would wait here as long as the test does
        go.release()
        assert r.end("win").proof == proof(1)
        assert r.engine.status().completed <= 2
        go.release(100)
