"""An engine that is stopped, in order, at once or by its death: what the next one takes up."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fake_devices import gate, proof, until, watchdog
from serving.durable import Rig, at_work, request, rig
from torchzk.errors import DrainingError, NotFoundError
from torchzk.scheduler.work import Job
from torchzk.serving.engine import JobState
from torchzk.serving.job_store import JobStore


def stopped(job: Job) -> bool:
    """Whether it was told to stop, and goes no further."""
    return job.stop.reason() is not None


@contextmanager
def closing(made: Rig, patience: float) -> Iterator[list[int]]:
    """An engine that is being closed meanwhile, and how many jobs it left, afterwards."""
    left: list[int] = []
    thread = threading.Thread(target=lambda: left.append(made.engine.close(patience)))
    thread.start()
    yield left
    thread.join()


def test_what_was_accepted_goes_on_after_a_stop(tmp_path: Path) -> None:
    hook, reached, go = gate()
    first = Rig(tmp_path, workers=1)
    with watchdog():
        first.prover.hooks = {"compute": hook}
        done = first.run(request("done", n=2))
        first.engine.submit(request("running", n=3, hooked=1))
        assert reached.wait(120)
        for k in range(5):
            first.engine.submit(request(f"{k}", n=1, k=k, hooked=1))
        first.engine.cancel("4")
        first.engine.drain()
        assert not first.engine.status().ready
        with pytest.raises(DrainingError, match="about to stop"):
            first.engine.submit(request("late", n=1))
        with closing(first, 20.0) as left:
            # what runs is finished, what waits is left
            until(
                lambda: all(job.left for job in first.engine._jobs.live.values() if not job.running)
            )
            until(lambda: stopped(at_work(first, "0")))
            go.set()
        assert first.engine.close(20.0) == left[0] and len(first.events("drain")) == 1
    assert left == [4] and len(first.prover.jobs) >= 2
    with watchdog(), rig(tmp_path) as second:
        assert second.engine.job("done").proof == done.proof
        assert second.engine.job("running").proof == proof(3)
        for k in range(4):
            assert second.end(f"{k}").state is JobState.COMPLETED
        assert second.engine.job("4").state is JobState.CANCELLED
        assert second.metric('torchzk_jobs_resumed_total{proof_kind="window_post"}') == 4
        assert second.engine.status().completed == 6
        with pytest.raises(NotFoundError):
            second.engine.job("late")


def test_a_hard_stop_keeps_the_partitions_that_were_proved(tmp_path: Path) -> None:
    reached = threading.Event()
    first = Rig(tmp_path, workers=1)
    with watchdog():
        count = 0

        def third() -> None:
            nonlocal count
            count += 1
            if count == 3:
                job = at_work(first, "x")
                reached.set()
                until(lambda: stopped(job))

        first.prover.hooks = {"compute": third}
        first.engine.submit(request("x", n=5, hooked=1))
        assert reached.wait(120)
        assert first.engine.close(0.0) == 1
    with watchdog(), rig(tmp_path) as second:
        assert second.end("x").proof == proof(5)
        ((_, job),) = second.prover.jobs
        assert len(job.started) < 5 and {0, 1}.isdisjoint(job.started)
        assert second.metric('torchzk_partitions_reused_total{proof_kind="window_post"}') >= 2


def test_a_job_that_processes_die_at_is_given_up(tmp_path: Path) -> None:
    wanted = request("x", n=2)
    store = JobStore(tmp_path)
    row, _ = store.accept(wanted, wanted.digest())
    other, _ = store.accept(request("y", n=1), request("y", n=1).digest())
    for _ in range(5):
        store.begin(row)
    store.begin(other)
    store.close()
    with watchdog(), rig(tmp_path) as r:
        report = r.end("x")
        assert (report.state, report.error_type) == (JobState.FAILED, "ResourceError")
        assert "died 5 times" in report.error_message
        assert r.end("y").state is JobState.COMPLETED


def test_a_stop_in_order_blames_nobody(tmp_path: Path) -> None:
    hook, reached, go = gate()
    for _ in range(6):
        made = Rig(tmp_path, hooks={"compute": hook})
        with watchdog():
            made.engine.watch(made.engine.submit(request("x", n=4, hooked=1)).job_id, print)
            assert reached.wait(120)
            job = at_work(made, "x")
            with closing(made, 0.0):
                until(lambda: stopped(job))  # noqa: B023
                go.set()
            reached.clear()
            go.clear()
    with watchdog(), rig(tmp_path) as r:
        assert r.end("x").state is JobState.COMPLETED
