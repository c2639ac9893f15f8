"""The calling thread as a worker: it proves until its job has ended, and a signal reaches it."""

from __future__ import annotations

import threading

import pytest

from fake_devices import FakeDevice, FakeJob, Referee, Script, gate, setups, watchdog
from torchzk.errors import DeviceLostError
from torchzk.scheduler.partition_pool import PartitionPool
from torchzk.scheduler.service import Service
from torchzk.scheduler.work import JobState


def test_where_there_is_no_thread_the_caller_does_it_all() -> None:
    referee = Referee()
    with watchdog(), Service(setups(FakeDevice(), workers=0)) as service:
        first, second = (FakeJob(name, Script(3), referee) for name in "ab")
        jobs = [service.submit(each.name, each) for each in (first, second)]
        for job in jobs:
            service.work(job, "fake:0")
            assert job.state is JobState.DONE
    assert [job.result() for job in jobs] == [b"\x00\x01\x02"] * 2
    assert referee.most["fake:0 compute"] == 1 and not referee.faults


def test_it_goes_when_its_job_has_ended_whatever_others_do() -> None:
    referee = Referee()
    hook, reached, go = gate()
    me = threading.get_ident()

    def hold() -> None:
        assert threading.get_ident() != me
        hook()

    with watchdog(), Service(setups(FakeDevice(), workers=1)) as service:
        slow = service.submit("slow", FakeJob("slow", Script(hooks={"prepare": hold}), referee))
        reached.wait()
        quick = service.submit("quick", FakeJob("quick", Script(2), referee))
        service.work(quick, "fake:0")
        assert (quick.state, slow.ended) == (JobState.DONE, False)
        go.set()
    assert slow.state is JobState.DONE


@pytest.mark.parametrize("step", ["prepare", "stage", "compute", "finish"])
def test_a_signal_in_a_partition_is_its_jobs_error(step: str) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    device, referee = FakeDevice(), Referee()
    with watchdog(), Service(setups(device, workers=0)) as service:
        script = Script(3, hooks={step: interrupt})
        job = service.submit("job", FakeJob("job", script, referee))
        service.work(job, "fake:0")
        with pytest.raises(KeyboardInterrupt):
            job.result()
        # the device is as good as before
        after = service.submit("after", FakeJob("after", Script(2), referee))
        service.work(after, "fake:0")
        assert after.state is JobState.DONE
    assert device.used == 0 and not referee.faults


def test_a_signal_between_partitions_ends_the_service(monkeypatch: pytest.MonkeyPatch) -> None:
    real = PartitionPool.claim
    calls: list[object] = []

    def claim(pool: PartitionPool, *args: object) -> object:
        # it may come when a partition was just claimed, and nobody is at it yet
        claimed = real(pool, *args)  # type: ignore[arg-type]
        calls.append(claimed)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return claimed

    monkeypatch.setattr(PartitionPool, "claim", claim)
    device, referee = FakeDevice(), Referee()
    with (
        watchdog(),
        pytest.raises(KeyboardInterrupt),
        Service(setups(device, workers=0)) as service,
    ):
        job = service.submit("job", FakeJob("job", Script(3), referee))
        service.work(job, "fake:0")
    assert isinstance(job.error, DeviceLostError) and service.devices == frozenset()
    assert device.used == 0 and not referee.faults
