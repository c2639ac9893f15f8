"""A service over fake devices: every job ends once, in the right state, whatever breaks."""

from __future__ import annotations

import gc
import random
import threading
import weakref
from collections import Counter

import pytest

from fake_devices import (
    STEPS,
    BrokenError,
    FakeDevice,
    FakeJob,
    Referee,
    Script,
    count_ends,
    gate,
    proof,
    settle,
    setups,
    until,
    watchdog,
)
from torchzk.errors import (
    CancelledError,
    ExpiredError,
    ProtocolError,
    QueueFullError,
)
from torchzk.scheduler.policies import POLICIES, Policy
from torchzk.scheduler.service import Limits, Service
from torchzk.scheduler.work import JobState, Priority
from torchzk.timeline import Span, Timeline

WINNING, WINDOW, REST = Priority


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES.keys())
def test_jobs_of_many_partitions_over_two_devices(policy: Policy) -> None:
    devices, referee, spans = [FakeDevice("a"), FakeDevice("b")], Referee(), list[Span]()
    with (
        watchdog(),
        Service(setups(*devices), policy, Timeline(on_close=spans.append)) as service,
    ):
        jobs = [
            service.submit(f"{n}", FakeJob(f"{n}", Script(n, 40), referee)) for n in range(1, 13)
        ]
    assert [job.result() for job in jobs] == [proof(n) for n in range(1, 13)]
    assert service.live == 0 and referee.faults == []
    assert sum(n for place, n in referee.calls.items() if "compute" in place) == 78
    lanes = {span.lane for span in spans}
    assert {"reading 0", "checking 0", "finishing 0"} < lanes
    for device in devices:
        assert {f"{device.name} mem lock", f"{device.name} compute lock"} < lanes


def test_a_thousand_mixed_jobs_each_end_once(monkeypatch: pytest.MonkeyPatch) -> None:
    ends = count_ends(monkeypatch)
    rng, referee = random.Random(7), Referee()
    devices = [FakeDevice("a"), FakeDevice("b", 60)]
    kinds = rng.sample(["bad"] * 50 + ["cancelled"] * 50 + ["good"] * 900, 1000)
    with watchdog(), Service(setups(*devices, workers=3)) as service:
        jobs = []
        for k, kind in enumerate(kinds):
            breaks = rng.choice(STEPS) if kind == "bad" else None
            script = Script(rng.choice((1, 1, 1, 2, 5)), rng.choice((5, 20, 60)), breaks=breaks)
            jobs.append(
                service.submit(
                    f"job {k}",
                    FakeJob(f"job {k}", script, referee),
                    rng.choices((WINNING, WINDOW, REST), (1, 3, 6))[0],
                    patience=30,
                )
            )
            if k >= 20 and kinds[k - 20] == "cancelled":
                jobs[k - 20].cancel()
    states = Counter((kind, job.state) for kind, job in zip(kinds, jobs, strict=True))
    late = states.pop(("cancelled", JobState.DONE), 0)
    assert states == {
        ("good", JobState.DONE): 900,
        ("bad", JobState.FAILED): 50,
        ("cancelled", JobState.CANCELLED): 50 - late,
    }
    assert late < 50, "all were cancelled after their end"
    assert set(ends.values()) == {1} and len(ends) == 1000
    assert referee.faults == [] and [d.used for d in devices] == [0, 0]
    for kind, job in zip(kinds, jobs, strict=True):
        if kind == "bad":
            assert isinstance(job.error, BrokenError) and job.name in str(job.error)


def test_one_jobs_failure_harms_no_other_at_any_step() -> None:
    referee, device = Referee(), FakeDevice()
    with watchdog(), Service(setups(device)) as service:
        bad = {
            step: service.submit(step, FakeJob(step, Script(3, breaks=step), referee))
            for step in STEPS
        }
        hungry = service.submit("hungry", FakeJob("hungry", Script(planned=101), referee))
        empty = service.submit("empty", FakeJob("empty", Script(), referee))
        empty.work.n_partitions = 0  # type: ignore[misc]
        good = [service.submit("good", FakeJob("good", Script(3), referee)) for _ in range(5)]
    assert {step: str(job.error) for step, job in bad.items()} == {
        step: f"{step} breaks at {step}" for step in STEPS
    }
    assert "plan with less" in str(hungry.error) and "0 partitions" in str(empty.error)
    assert all(job.result() == proof(3) for job in good)
    assert device.used == 0 and referee.faults == [] and service.devices == {device.name}


def test_memory_is_bounded_whatever_is_submitted() -> None:
    """While the device hangs, only so many jobs are read, and only so many wait."""
    hook, reached, go = gate()
    referee, n = Referee(), 40
    limits = Limits(submitted=n, read=2, checked=3, proving=2, proved=1)
    device = FakeDevice()
    with watchdog(), Service(setups(device), limits=limits) as service:
        first = Script(hooks={"compute": hook})
        jobs = [service.submit("first", FakeJob("first", first, referee))]
        assert reached.wait(120)
        works = [FakeJob(f"{k}", Script(hooks={"compute": hook}), referee) for k in range(n)]
        jobs += [service.submit(work.name, work) for work in works]
        settle(lambda: referee.calls["read"], 7)
        # in work 2, the first included, then checked 3, and read 2
        assert referee.calls["read"] == 2 + 3 + 2
        with pytest.raises(QueueFullError):
            for _ in range(n):
                jobs.append(service.submit("more", FakeJob("more", Script(), referee)))
        # a class of its own has places of its own, all the way
        urgent = service.submit("urgent", FakeJob("urgent", Script(), referee), WINNING)
        settle(lambda: referee.calls["read"], 8)
        assert referee.calls["read"] == 8 and urgent.state is JobState.RUNNING
        go.set()
    assert {job.state for job in (*jobs, urgent)} == {JobState.DONE}


def test_a_jobs_input_is_let_go_of_when_it_ends() -> None:
    """Its owner keeps the job and its error; nobody keeps what it was read from."""
    referee = Referee()
    with watchdog(), Service(setups(FakeDevice())) as service:
        jobs, inputs = [], []
        for breaks in (None, *STEPS):
            work = FakeJob(str(breaks), Script(3, breaks=breaks), referee)
            inputs.append(weakref.ref(work))
            jobs.append(service.submit(work.name, work, seconds=600))
            jobs[-1].wait(120)
            del work

        def forgotten() -> bool:
            gc.collect()
            return [ref() for ref in inputs] == [None] * len(jobs)

        # as soon as the threads wait for more
        until(forgotten)
        assert sum(job.error is not None for job in jobs) == len(STEPS)


def test_the_most_urgent_partition_goes_next() -> None:
    hook, reached, go = gate()
    referee, order = Referee(), list[str]()

    def job(name: str, n: int = 1) -> FakeJob:
        hooks = {"prepare": lambda: order.append(name)}
        return FakeJob(name, Script(n, hooks=hooks), referee)

    with watchdog(), Service(setups(FakeDevice(), workers=1)) as service:
        service.submit("first", FakeJob("first", Script(hooks={"compute": hook}), referee))
        assert reached.wait(120)
        for name, n, priority in (
            ("porep", 3, REST), ("later", 1, REST), ("window", 2, WINDOW), ("winning", 1, WINNING),
        ):  # fmt: skip
            service.submit(name, job(name, n), priority)
        settle(lambda: len(service._checked), 4)
        go.set()
    assert order == ["winning", "window", "window", "porep", "porep", "porep", "later"]


def test_cancel_takes_effect_wherever_the_job_is() -> None:
    """In a queue at once, even while everything before it is stuck; at work, at the next look."""
    hook, reached, go = gate()
    referee, device = Referee(), FakeDevice()
    limits = Limits(read=1, checked=1, proving=1)
    with watchdog(), Service(setups(device, workers=1), limits=limits) as service:
        works = [FakeJob(f"{k}", Script(2, hooks={"compute": hook}), referee) for k in range(5)]
        jobs = [service.submit(work.name, work) for work in works]
        assert reached.wait(120)
        settle(lambda: referee.calls["read"], 3)
        # from the end of the line: nobody moves up meanwhile
        for job in reversed(jobs[1:]):
            job.cancel()
            assert job.wait(0) is JobState.CANCELLED
        jobs[0].cancel()
        assert jobs[0].wait(0) is JobState.RUNNING
        go.set()
        assert jobs[0].wait(120) is JobState.CANCELLED
        jobs[0].cancel()
    assert works[0].started == [0] and works[0].drops == [0] and device.used == 0
    assert isinstance(jobs[0].error, CancelledError) and str(jobs[0].error) == "0 was cancelled"
    assert referee.calls["fake:0 finish"] == 0


def test_a_deadline_takes_effect_wherever_the_job_is() -> None:
    hook, reached, go = gate()
    referee, device, now = Referee(), FakeDevice(), [0.0]
    with watchdog(), Service(setups(device, workers=1), clock=lambda: now[0]) as service:
        running = service.submit(
            "a", FakeJob("a", Script(hooks={"compute": hook}), referee), seconds=0.3
        )
        assert reached.wait(120)
        waiting = service.submit("b", FakeJob("b", Script(), referee), seconds=0.05)
        unhurried = service.submit("c", FakeJob("c", Script(), referee), seconds=600)
        now[0] = 0.1
        assert waiting.wait(120) is JobState.EXPIRED and running.state is JobState.RUNNING
        now[0] = 0.4
        go.set()
        assert running.wait(120) is JobState.EXPIRED and unhurried.wait(120) is JobState.DONE
    assert isinstance(running.error, ExpiredError) and device.used == 0


def test_a_deadline_that_no_wait_can_express_is_none() -> None:
    hook, reached, go = gate()
    referee, device, now = Referee(), FakeDevice(), [0.0]
    with watchdog(), Service(setups(device, workers=1), clock=lambda: now[0]) as service:
        # the most milliseconds that a client can say
        endless = service.submit(
            "a", FakeJob("a", Script(hooks={"compute": hook}), referee), seconds=2.0**64 / 1000
        )
        assert reached.wait(120)
        waiting = service.submit("b", FakeJob("b", Script(), referee), seconds=0.05)
        now[0] = 0.1
        assert waiting.wait(120) is JobState.EXPIRED
        go.set()
        assert endless.wait(120) is JobState.DONE


def test_a_failing_partition_stops_its_siblings_and_then_the_job_ends() -> None:
    hook, reached, go = gate()
    referee, device = Referee(), FakeDevice()

    def first_waits() -> None:
        if not reached.is_set():
            hook()

    script = Script(
        6,
        hooks={"compute": first_waits},
        breaks="prepare",
        at_partition=1,
        # or the first would be stopped on its way to the device
        before_break=lambda: reached.wait(120),
    )
    work = FakeJob("job", script, referee)
    with watchdog(), Service(setups(device)) as service:
        job = service.submit("job", work)
        assert reached.wait(120)
        settle(lambda: len(work.drops), 1)
        # it has failed, but does not end while its first partition is on the device
        assert job.state is JobState.RUNNING and work.drops == [1]
        go.set()
        assert job.wait(120) is JobState.FAILED
        assert device.used == 0 and sorted(work.drops) == [0, 1]
    assert isinstance(job.error, BrokenError) and work.started == [0, 1]


def test_idle_devices_take_partitions_of_jobs_that_others_began() -> None:
    a, b, referee = FakeDevice("a"), FakeDevice("b"), Referee()
    together = threading.Barrier(2)

    def meet() -> None:
        together.wait(120)

    script = Script(2, hooks={"compute": meet})
    with watchdog(), Service(setups(a, b, workers=1)) as service:
        # one job, and yet both of its partitions meet
        assert service.submit("job", FakeJob("job", script, referee)).result(120) == proof(2)
    assert referee.calls["a compute"] == referee.calls["b compute"] == 1


def test_leaving_by_an_error_cancels_and_a_closed_service_takes_nothing() -> None:
    hook, reached, go = gate()
    referee = Referee()

    def go_on() -> None:
        until(lambda: all(job.stop.reason() is not None for job in jobs))
        go.set()

    with watchdog(), pytest.raises(RuntimeError, match="of the caller"):  # noqa: SIM117
        with Service(setups(FakeDevice())) as service:
            jobs = [
                service.submit(f"{k}", FakeJob(f"{k}", Script(hooks={"compute": hook}), referee))
                for k in range(20)
            ]
            assert reached.wait(120)
            threading.Thread(target=go_on).start()
            raise RuntimeError("an error of the caller")
    assert {job.state for job in jobs} == {JobState.CANCELLED}
    with pytest.raises(ProtocolError, match="closed"):
        service.submit("late", FakeJob("late", Script(), referee))
    with pytest.raises(ProtocolError, match="each is there once"):
        Service(setups(FakeDevice("a"), FakeDevice("a")))
