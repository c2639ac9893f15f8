"""Jobs in order of class and age, in bounded queues; and the pieces of each put together."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fake_devices import FakeJob, Referee, Script
from torchzk.errors import (
    CancelledError,
    ExpiredError,
    ProtocolError,
    QueueFullError,
    ResourceError,
    TorchzkError,
)
from torchzk.scheduler.assembler import Assembler
from torchzk.scheduler.job_queue import HEAD_START, JobQueue
from torchzk.scheduler.stop import Stop
from torchzk.scheduler.work import Job, JobState, Priority, state_after

WINNING, WINDOW, REST = Priority


def job(name: str, priority: Priority = REST, submitted: float = 0.0) -> Job:
    return Job(name, FakeJob(name, Script(), Referee()), priority, Stop(), submitted)


def filled(*jobs: Job, bound: int = 1000) -> JobQueue:
    queue = JobQueue("jobs", bound)
    for one in jobs:
        queue.reserve(one)
        queue.put(one)
    return queue


def test_winning_before_window_before_the_rest_and_each_class_by_age() -> None:
    queue = filled(
        job("p1", REST, 2), job("d2", WINDOW, 5), job("p0", REST, 1), job("w", WINNING, 9),
        job("d1", WINDOW, 3),
    )  # fmt: skip
    assert [j.name for j in queue] == ["w", "d1", "d2", "p0", "p1"]
    assert [getattr(queue.take(), "name", None) for _ in range(6)] == [
        "w", "d1", "d2", "p0", "p1", None,
    ]  # fmt: skip


def test_age_beats_class_in_time() -> None:
    old = job("old", REST, 0)
    assert [j.name for j in filled(job("w", WINNING, 1199), old)] == ["w", "old"]
    assert [j.name for j in filled(job("w", WINNING, 1201), old)] == ["old", "w"]
    assert HEAD_START[WINNING] > HEAD_START[WINDOW] > HEAD_START[REST] == 0


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(Priority), st.integers(0, 5000)), max_size=40))
def test_order_is_by_rank_whatever_comes(arrivals: list[tuple[Priority, int]]) -> None:
    jobs = [job(str(k), p, t) for k, (p, t) in enumerate(arrivals)]
    queue = filled(*jobs)
    taken = [queue.take() for _ in jobs]
    assert taken == sorted(jobs, key=lambda j: (queue.rank(j), jobs.index(j)))
    assert len(queue) == 0 and queue.take() is None


@pytest.mark.parametrize("urgent", [WINNING, WINDOW])
def test_nothing_starves_under_a_flood_of_urgent_jobs(urgent: Priority) -> None:
    """Virtual time: an urgent job comes every second, and one job is served a second."""
    queue, waiting = JobQueue("jobs", 10_000), job("porep", REST, 0)
    queue.reserve(waiting)
    queue.put(waiting)
    for second in range(5000):
        flood = job(f"{second}", urgent, second)
        queue.reserve(flood)
        queue.put(flood)
        if queue.take() is waiting:
            break
    # everybody before it was submitted within the head start
    assert second == HEAD_START[urgent] + 1


def test_bounds_are_a_class_each_and_count_those_on_their_way() -> None:
    queue = JobQueue("submitted", 2)
    a, b, c, w = job("a"), job("b"), job("c"), job("w", WINNING)
    queue.reserve(a)
    queue.put(a)
    queue.reserve(b)
    assert not queue.room(REST) and queue.room(WINNING)
    with pytest.raises(QueueFullError, match="submitted: 2 jobs of class rest wait already"):
        queue.reserve(c)
    assert issubclass(QueueFullError, ResourceError)
    queue.reserve(w)
    queue.give_up(b)
    queue.give_up(b)
    assert queue.room(REST) and len(queue) == 1
    with pytest.raises(ProtocolError, match="b has no place among submitted"):
        queue.put(b)
    with pytest.raises(ProtocolError):
        JobQueue("none", 0)


def test_taking_is_by_class_and_removing_by_job() -> None:
    a, b, w = job("a", REST, 0), job("b", REST, 1), job("w", WINNING, 2)
    queue = filled(a, b, w)
    assert queue.take(lambda p: p is not WINNING) is a
    assert queue.take(lambda p: p is WINDOW) is None
    assert queue.remove(b) and not queue.remove(b) and not queue.remove(a)
    assert list(queue) == [w]


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 12), st.integers(0, 1 << 32))
def test_every_partition_is_put_together_once_and_in_order(n: int, seed: int) -> None:
    rng = random.Random(seed)
    parts, flying = Assembler(n), list[int]()
    handed: list[int] = []
    while not parts.complete:
        choice = rng.random()
        if parts.waiting and choice < 0.5:
            flying.append(parts.take())
            handed.append(flying[-1])
        elif flying:
            index = flying.pop(rng.randrange(len(flying)))
            if choice < 0.7:
                parts.give_back(index)
            else:
                parts.put(index, bytes([index]))
                for again in (parts.give_back, lambda k: parts.put(k, b"")):
                    with pytest.raises(ProtocolError, match="nobody works on"):
                        again(index)
        assert parts.in_flight == len(flying) and set(flying).isdisjoint(parts._waiting)
    assert parts.pieces() == [bytes([k]) for k in range(n)]
    assert set(handed) == set(range(n))
    with pytest.raises(ProtocolError, match="no partition waits"):
        parts.take()


def test_an_assembler_gives_nothing_away_early() -> None:
    parts = Assembler(3)
    assert [parts.take(), parts.take()] == [0, 1]
    parts.give_back(0)
    assert parts.take() == 0
    parts.put(1, b"1")
    with pytest.raises(ProtocolError, match=r"partitions \[0, 2\] are missing"):
        parts.pieces()
    with pytest.raises(ProtocolError):
        Assembler(0)


def test_a_job_ends_exactly_once() -> None:
    one = job("porep 7")
    assert (one.state, one.ended, one.wait(0)) == (JobState.QUEUED, False, JobState.QUEUED)
    with pytest.raises(TorchzkError, match="porep 7 is still queued after 0 s"):
        one.result(0)
    one.begin()
    for both in ({}, {"result": b"", "error": ValueError()}):
        with pytest.raises(ProtocolError, match="a result or an error"):
            one.end(**both)  # type: ignore[arg-type]
    one.end(result=b"proof")
    assert one.state is JobState.DONE and one.result() == b"proof" and one.ended
    with pytest.raises(ProtocolError, match="porep 7 ends twice: it is done"):
        one.end(error=ValueError())
    with pytest.raises(ProtocolError, match="begins, but is done"):
        one.begin()
    with pytest.raises(ProtocolError, match="no work left"):
        _ = one.work
    assert one.result() == b"proof"


def test_how_a_job_ended_is_told_by_its_error() -> None:
    ends = [None, ValueError("v"), CancelledError("c"), ExpiredError("e")]
    assert [state_after(e).value for e in ends] == ["done", "failed", "cancelled", "expired"]
    one = job("w", WINNING)
    one.end(error=ends[1])
    with pytest.raises(ValueError, match="v"):
        one.result()
    assert one.error is ends[1]


def test_a_stop_keeps_its_first_reason_and_wakes_who_watches() -> None:
    now = 0.0
    stop, woken = Stop(10.0, lambda: now), list[str]()
    unwatch = stop.watch(lambda: woken.append("a"))
    stop.watch(lambda: woken.append("b"))
    unwatch()
    unwatch()
    stop.check()
    assert stop.seconds_left() == 10.0
    now = 12.5
    with pytest.raises(ExpiredError, match=r"passed 2\.5 s ago"):
        stop.check()
    stop.cancel("first")
    stop.cancel("second")
    with pytest.raises(CancelledError, match="first"):
        stop.check()
    assert woken == ["b"] and Stop().seconds_left() is None and Stop().reason() is None
