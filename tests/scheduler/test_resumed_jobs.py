"""Jobs that a service gets with a past: partitions proved before, and seconds waited elsewhere."""

from __future__ import annotations

import threading

import pytest

from fake_devices import FakeDevice, FakeJob, Referee, Script, gate, proof, setups, watchdog
from torchzk.errors import DeviceLostError, ProtocolError
from torchzk.scheduler.assembler import Assembler
from torchzk.scheduler.service import Service
from torchzk.scheduler.work import Job, JobState


def test_an_assembler_hands_out_only_what_is_missing() -> None:
    parts = Assembler(4, {1: b"b", 3: b"d"})
    assert [parts.take(), parts.take()] == [0, 2] and not parts.waiting
    parts.put(2, b"c")
    parts.put(0, b"a")
    assert parts.complete and parts.pieces() == [b"a", b"b", b"c", b"d"]
    assert Assembler(1, {0: b"x"}).complete


@pytest.mark.parametrize("there", [(), (0,), (1, 3), (0, 1, 2, 3)])
def test_only_what_is_missing_is_proved(there: tuple[int, ...]) -> None:
    work = FakeJob("x", Script(4), Referee())
    ended: list[tuple[Job, JobState]] = []
    with watchdog(), Service(setups(FakeDevice())) as service:
        job = service.submit(
            "x",
            work,
            proven={k: bytes([k]) for k in there},
            on_end=lambda job: ended.append((job, job.state)),
        )
        assert job.result(120) == proof(4)
    assert sorted([*work.started, *there]) == [0, 1, 2, 3]
    assert ended == [(job, JobState.DONE)]


def test_pieces_of_another_job_fail_the_job_and_nothing_else() -> None:
    device = FakeDevice()
    with watchdog(), Service(setups(device)) as service:
        job = service.submit("x", FakeJob("x", Script(2), Referee()), proven={2: b"?"})
        with pytest.raises(ProtocolError, match=r"x has 2 partitions, proved before were \[2\]"):
            job.result(120)
        assert service.submit("y", FakeJob("y", Script(2), Referee())).result(120) == proof(2)
        assert service.devices == {device.name}


def test_seconds_waited_elsewhere_count() -> None:
    hook, reached, go = gate()
    order: list[str] = []
    guard = threading.Lock()

    def at(name: str) -> FakeJob:
        def note() -> None:
            with guard:
                order.append(name)

        return FakeJob(name, Script(hooks={"read": note}), Referee())

    with watchdog(), Service(setups(FakeDevice(), workers=1)) as service:
        # nobody is read while the reader stands still
        service.submit("first", FakeJob("first", Script(hooks={"read": hook}), Referee()))
        assert reached.wait(120)
        jobs = [
            service.submit(f"{age}", at(f"{age}"), age=age) for age in (0.0, 50.0, 100.0, -50.0)
        ]
        go.set()
        for job in jobs:
            job.result(120)
    assert order == ["100.0", "50.0", "0.0", "-50.0"]


def test_a_device_set_aside_from_outside_hands_its_work_to_others() -> None:
    hook, reached, go = gate()
    referee = Referee()
    with watchdog(), Service(setups(FakeDevice("a"), workers=1)) as service:
        job = service.submit("x", FakeJob("x", Script(2, hooks={"compute": hook}), referee))
        assert reached.wait(120)
        service.set_aside("a", DeviceLostError("its proofs do not hold"))
        go.set()
        with pytest.raises(DeviceLostError, match="its proofs do not hold"):
            job.result(120)
        assert service.devices == frozenset()
