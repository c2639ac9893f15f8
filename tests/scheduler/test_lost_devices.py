"""Devices that fail or hang under a service: set aside, and their work done elsewhere."""

from __future__ import annotations

import threading

import pytest

from fake_devices import (
    FakeDevice,
    FakeJob,
    GoneError,
    Referee,
    Script,
    gate,
    proof,
    settle,
    setups,
    until,
    watchdog,
)
from torchzk.errors import DeviceLostError, LockTimeoutError
from torchzk.scheduler.policies import TWO_LOCKS
from torchzk.scheduler.service import Limits, Service
from torchzk.scheduler.work import JobState


def test_a_lost_device_is_set_aside_and_its_work_done_elsewhere() -> None:
    good, bad = FakeDevice("good"), FakeDevice("bad")
    referee, after = Referee(), threading.Event()

    def break_it() -> None:
        # both devices are at work by then, and much is left
        if threading.current_thread().name.startswith("good "):
            assert referee.calls["good compute"] < 4 or after.wait(60)
        elif referee.calls["bad compute"] >= 3:
            until(lambda: referee.calls["good compute"] >= 3)
            bad.gone = True
            after.set()

    script = Script(10, seconds={"compute": 0.001}, hooks={"compute": break_it})
    with watchdog(), Service(setups(good, bad)) as service:
        jobs = [service.submit(f"{k}", FakeJob(f"{k}", script, referee)) for k in range(8)]
        for job in jobs:
            assert job.result(120) == proof(10)
        assert after.is_set() and service.devices == {"good"}
        computed = referee.calls["bad compute"]
        assert service.submit("more", FakeJob("more", script, referee)).result(120) == proof(10)
        assert referee.calls["bad compute"] == computed
    assert referee.faults == [] and good.used == bad.used == 0


def test_nothing_is_begun_on_a_device_that_is_set_aside() -> None:
    """Those who wait for its locks are sent away, though its error was another's."""
    hook, reached, go = gate()
    a, b, referee = FakeDevice("a"), FakeDevice("b"), Referee()

    def break_it() -> None:
        if threading.current_thread().name.startswith("a "):
            hook()
            raise GoneError("an illegal address")
        # or it would be done before the others begin
        assert staged.wait(120)

    staged = threading.Event()
    script = Script(12, hooks={"compute": break_it})
    with watchdog(), Service(setups(a, b, workers=3)) as service:
        job = service.submit("job", FakeJob("job", script, referee))
        assert reached.wait(120)
        settle(lambda: referee.calls["a stage"], 3)
        assert referee.calls["a stage"] == 3
        staged.set()
        go.set()
        assert job.result(120) == proof(12)
    assert referee.calls["a compute"] == 1 and a.used == b.used == 0


def test_with_no_device_left_every_job_ends_and_no_more_are_taken() -> None:
    device, referee = FakeDevice(), Referee()

    def break_it() -> None:
        device.gone = True

    with watchdog(), Service(setups(device)) as service:
        first = FakeJob("first", Script(4, hooks={"stage": break_it}), referee)
        jobs = [service.submit("first", first)]
        for k in range(30):
            try:
                jobs.append(service.submit(f"{k}", FakeJob(f"{k}", Script(), referee)))
            except DeviceLostError:
                break
        assert {job.wait(120) for job in jobs} == {JobState.FAILED}
        with pytest.raises(DeviceLostError, match="no device is left.*fell off the bus"):
            service.submit("late", FakeJob("late", Script(), referee))
    assert {type(job.error) for job in jobs} == {DeviceLostError} and device.used == 0


def test_a_job_that_loses_two_devices_gets_no_third() -> None:
    devices, referee = [FakeDevice(name) for name in "abcd"], Referee()

    def poison() -> None:
        raise GoneError("an illegal address")

    with watchdog(), Service(setups(*devices, workers=1)) as service:
        bad = service.submit("bad", FakeJob("bad", Script(hooks={"compute": poison}), referee))
        assert bad.wait(120) is JobState.FAILED and len(service.devices) == 2
        good = service.submit("good", FakeJob("good", Script(9), referee))
        assert good.result(120) == proof(9)
    assert isinstance(bad.error, GoneError)


def test_a_device_that_hangs_is_set_aside_by_who_waits_for_it() -> None:
    hook, reached, go = gate()
    hangs, works, referee = FakeDevice("hangs"), FakeDevice("works"), Referee()

    def hang() -> None:
        if referee.calls["hangs compute"] and threading.current_thread().name[:5] == "hangs":
            hook()

    script = Script(4, seconds={"compute": 0.005}, hooks={"compute": hang})
    limits = Limits(lock_timeout=1.5)
    with watchdog(), Service(setups(hangs, works), TWO_LOCKS, limits=limits) as service:
        jobs = [service.submit(f"{k}", FakeJob(f"{k}", script, referee)) for k in range(30)]
        assert reached.wait(120)
        # all of them, while the hanging thread still holds its lock
        assert [job.result(120) for job in jobs] == [proof(4)] * 30
        assert service.devices == {"works"}
        # what it delivers in the end is nobody's
        go.set()
    assert referee.faults == [] and hangs.used == 0


def test_a_timeout_on_the_only_device_names_the_holder() -> None:
    hook, reached, go = gate()
    referee = Referee()
    script = Script(2, hooks={"compute": hook})
    with watchdog(), Service(setups(FakeDevice()), limits=Limits(lock_timeout=0.05)) as service:
        job = service.submit("job", FakeJob("job", script, referee))
        assert job.wait(120) is JobState.FAILED
        go.set()
    assert LockTimeoutError.__name__ in str(job.error)
    assert "has held it for" in str(job.error) and "fake:0 worker" in str(job.error)
