"""Partitions handed to workers: in order, near their home, and once, though devices be lost."""

from __future__ import annotations

import threading

import pytest

from fake_devices import FakeJob, GoneError, Referee, Script
from torchzk.errors import DeviceLostError
from torchzk.scheduler.job_queue import JobQueue
from torchzk.scheduler.partition_pool import Claim, PartitionPool
from torchzk.scheduler.stop import Stop
from torchzk.scheduler.work import Job, Priority


class Rig:
    """A pool of two or more devices with its queues, and what was told to its owner."""

    def __init__(self, devices: str = "ab", bound: int = 10, proved: int = 10) -> None:
        self.checked, self.proved = JobQueue("checked", 100), JobQueue("proved", proved)
        self.ended: list[tuple[Job, BaseException]] = []
        self.losses: list[DeviceLostError] = []
        self.pool = PartitionPool(
            threading.Condition(threading.RLock()),
            devices,
            bound,
            self.checked,
            self.proved,
            lambda job, error: self.ended.append((job, error)),
            self.losses.append,
        )

    def add(self, name: str, n: int, priority: Priority = Priority.REST) -> Job:
        job = Job(name, FakeJob(name, Script(), Referee()), priority, Stop(), 0.0)
        job.n_partitions = n
        self.checked.reserve(job)
        self.checked.put(job)
        return job

    def claim(self, device: str) -> Claim:
        claim = self.pool.claim(device)
        assert claim is not None
        return claim

    def claims(self, device: str, n: int) -> list[tuple[str, int]]:
        return [(c.job.name, c.index) for c in (self.claim(device) for _ in range(n))]


def test_jobs_stay_at_home_and_idle_devices_steal() -> None:
    rig = Rig()
    rig.add("x", 3)
    rig.add("y", 3)
    assert rig.claims("a", 1) == [("x", 0)]
    # b begins a job of its own rather than share one
    assert rig.claims("b", 2) == [("y", 0), ("y", 1)]
    assert rig.claims("a", 3) == [("x", 1), ("x", 2), ("y", 2)]


def test_class_goes_before_home() -> None:
    rig = Rig()
    rig.add("x", 2)
    assert rig.claims("a", 1) == [("x", 0)]
    rig.add("w", 2, Priority.WINNING)
    assert rig.claims("b", 1) == [("w", 0)]
    assert rig.claims("a", 2) == [("w", 1), ("x", 1)]


def test_pieces_come_together_in_order_and_the_job_goes_on() -> None:
    rig = Rig()
    job = rig.add("x", 3)
    claims = [rig.claim(device) for device in "aba"]
    for claim in reversed(claims):
        assert len(rig.proved) == 0
        rig.pool.deliver(claim, bytes([claim.index]))
    assert list(rig.proved) == [job] and rig.pool.pieces(job) == [b"\0", b"\1", b"\2"]
    # delivered again, or failed after all: nobody listens
    rig.pool.deliver(claims[0], b"again")
    rig.pool.fail(claims[0], ValueError())
    assert rig.ended == []


def test_what_a_lost_device_delivers_late_is_ignored() -> None:
    rig = Rig()
    job = rig.add("x", 2)
    lost, other = rig.claim("a"), rig.claim("b")
    rig.pool.set_aside("a", GoneError("it hangs"))
    again = rig.claim("b")
    assert again.index == lost.index == 0 and rig.pool.claim("a") is None
    rig.pool.deliver(lost, b"late")
    rig.pool.fail(lost, ValueError("late"))
    rig.pool.set_aside("a", GoneError("once more"), lost)
    rig.pool.deliver(other, b"1")
    assert len(rig.proved) == 0
    rig.pool.deliver(again, b"0")
    assert rig.pool.pieces(job) == [b"0", b"1"]
    assert rig.pool.devices == {"b"} and rig.pool.loss() is None and rig.losses == []


def test_the_job_at_work_is_blamed_for_a_device_and_not_its_neighbours() -> None:
    rig = Rig("abc")
    bad, good = rig.add("bad", 1), rig.add("good", 3)
    # bad is on a, then on b; good has been there both times
    at_a = rig.claim("a")
    assert rig.claims("a", 1) == [("good", 0)]
    rig.pool.set_aside("a", GoneError("1"), at_a)
    at_b = rig.claim("b")
    assert at_b.job is bad and rig.claims("b", 1) == [("good", 0)]
    rig.pool.set_aside("b", GoneError("2"), at_b)
    assert [(job.name, str(error)) for job, error in rig.ended] == [("bad", "2")]
    assert rig.claims("c", 3) == [("good", 0), ("good", 1), ("good", 2)] and not good.ended


def test_the_last_device_takes_all_jobs_with_it() -> None:
    rig = Rig("a")
    job = rig.add("x", 2)
    claim = rig.claim("a")
    rig.pool.set_aside("a", GoneError("off the bus"), claim)
    said = "no device is left to prove on: a: GoneError: off the bus"
    assert [(j, str(e)) for j, e in rig.ended] == [(job, said)]
    assert [str(loss) for loss in rig.losses] == [said]
    assert rig.proved.room(Priority.REST)


def test_a_failed_job_ends_when_its_last_partition_is_back() -> None:
    rig = Rig()
    job, error = rig.add("x", 5), ValueError("a row is not satisfied")
    one, two, three = (rig.claim("a") for _ in range(3))
    rig.pool.fail(two, error)
    assert job.stop.reason() is not None and rig.ended == []
    rig.pool.deliver(three, b"")
    rig.pool.fail(one, RuntimeError("because it was stopped"))
    assert rig.ended == [(job, error)]
    rig.pool.close()
    assert rig.pool.claim("a") is None


@pytest.mark.parametrize(("bound", "partitions"), [(1, 1), (1, 3), (2, 1), (3, 2)])
@pytest.mark.parametrize("devices", ["a", "ab"])
def test_no_more_partitions_are_in_work_than_jobs_in_work_have(
    bound: int, partitions: int, devices: str
) -> None:
    """So that a device's workers beyond these repeat what these do: `bench.sweep_cases.repeats`."""
    rig = Rig(devices, bound=bound)
    for k in range(4):
        rig.add(str(k), partitions)
    rig.pool.close()
    at_work: list[Claim] = []
    most = 0
    while len(rig.proved) < 4:
        # somebody is always there to ask
        while (claim := rig.pool.claim(devices[len(at_work) % len(devices)])) is not None:
            at_work.append(claim)
        most = max(most, len(at_work))
        rig.pool.deliver(at_work.pop(0), b"")
    assert most == bound * partitions and not at_work


def test_jobs_in_work_and_jobs_that_wait_to_be_finished_are_bounded() -> None:
    rig = Rig(bound=2, proved=3)
    jobs = [rig.add(str(k), 1) for k in range(5)]
    claims = [rig.claim("a"), rig.claim("a")]
    assert len(rig.checked) == 3
    for claim in claims:
        rig.pool.deliver(claim, b"")
    # two wait for their finish, so there is a place for one more
    assert rig.claim("a").job is jobs[2]
    rig.pool.close()
    assert rig.pool.claim("a") is None and len(rig.checked) == 2
    assert rig.proved.take() is jobs[0]
    assert rig.claim("b").job is jobs[3]
