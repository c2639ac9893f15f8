"""Policies as values, and a partition's way under each: what is held when, and what is left."""

from __future__ import annotations

import gc
import threading
import time
import weakref
from collections.abc import Callable

import pytest

from fake_devices import BrokenError, FakeDevice, FakeJob, FakePartition, Referee, Script
from torchzk.errors import (
    CancelledError,
    DeviceLostError,
    ExpiredError,
    ProtocolError,
    ResourceError,
)
from torchzk.scheduler.locks import DeviceLocks, LockName
from torchzk.scheduler.memory_budget import MemoryBudget
from torchzk.scheduler.partition_run import Seat, forget_frames, run_partition
from torchzk.scheduler.policies import AHEAD, KERNELS, POLICIES, TWO_LOCKS, WHOLE, Leg, Policy
from torchzk.scheduler.stop import Stop
from torchzk.scheduler.work import PartitionWork, Step
from torchzk.timeline import Span, Timeline

P, A, S, C, F = Step
STEPS = [step.value for step in (P, S, C, F)]
EVERY = pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES.keys())


def seat_on(device: FakeDevice, spans: list[Span] | None = None, total: int = 100) -> Seat:
    timeline = Timeline(on_close=(spans if spans is not None else []).append)
    locks, budget = DeviceLocks(device.name, timeline), MemoryBudget(device.name, total)
    budget.watch(locks.mem.wake)
    return Seat("w0", device, locks, budget, timeline.on_lane("w0"))


def one(script: Script, device: FakeDevice) -> tuple[FakePartition, FakeJob]:
    job = FakeJob("job", script, Referee())
    return FakePartition(job, 0, device), job


def held(seat: Seat) -> LockName | None:
    if seat.locks.mem.held_by_caller:
        return "mem"
    return "compute" if seat.locks.compute.held_by_caller else None


def test_the_policies_are_the_history() -> None:
    assert [*POLICIES] == ["whole", "kernels", "ahead", "two-locks"]
    locked = {
        policy.name: {s.value: leg.lock for leg in policy.legs for s in leg.steps if s is not A}
        for policy in POLICIES.values()
    }
    assert locked == {
        "whole": dict.fromkeys(STEPS, "compute"),
        "kernels": {"prepare": None, "stage": "compute", "compute": "compute", "finish": None},
        "ahead": {"prepare": None, "stage": None, "compute": "compute", "finish": None},
        "two-locks": {"prepare": None, "stage": "mem", "compute": "compute", "finish": None},
    }


@pytest.mark.parametrize(
    ("legs", "message"),
    [
        ([("mem", [P, A, S]), ("compute", [C])], "its steps are prepare, admit, stage, compute"),
        ([("mem", [A, P, S]), ("compute", [C, F, F])], "its steps are"),
        ([("mem", [A, S, P]), ("compute", [C, F])], "its steps are"),
        ([("mem", [P, S, A]), ("compute", [C, F])], "before it is promised"),
        ([("compute", [P]), ("mem", [A, S]), (None, [C, F])], "mem, then compute, each once"),
        ([("mem", [P, A, S, C, F])], "mem, then compute, each once"),
        ([("mem", [P]), ("mem", [A, S]), ("compute", [C, F])], "mem, then compute, each once"),
        ([("mem", [P]), (None, [A, S]), ("compute", [C, F])], "promised under mem"),
        ([("mem", [P, A, S]), (None, [C]), ("compute", [F])], "run under compute"),
    ],
)
def test_a_policy_that_breaks_the_rules_is_no_value(
    legs: list[tuple[LockName | None, list[Step]]], message: str
) -> None:
    with pytest.raises(ProtocolError, match=message):
        Policy("bad", tuple(Leg(lock, tuple(steps)) for lock, steps in legs))


@EVERY
def test_each_step_is_done_once_under_the_lock_of_its_leg(policy: Policy) -> None:
    device, spans = FakeDevice(), list[Span]()
    seat = seat_on(device, spans)
    seen: list[tuple[str, LockName | None, int, int]] = []

    def look(step: str) -> Callable[[], None]:
        return lambda: seen.append((step, held(seat), seat.budget.held, device.used))

    work, job = one(Script(planned=40, hooks={step: look(step) for step in STEPS}), device)
    assert run_partition(policy, work, seat, Stop()) == b"\0"
    where = {s.value: leg.lock for leg in policy.legs for s in leg.steps}
    assert [(step, lock) for step, lock, _, _ in seen] == [(s, where[s]) for s in STEPS]
    # bytes are promised before memory is taken, and given back before the finish
    assert [promised for *_, promised, _ in seen[1:]] == [40, 40, 0]
    assert [used for *_, used in seen] == [0, 20, 40, 0]
    assert job.drops == [0] and job.referee.faults == []
    names = [s.name for s in spans if s.lane == "w0"]
    assert [n for n in names if n != "admit"] == STEPS


@EVERY
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("how", ["breaks", "cancelled", "expired", "lost"])
def test_everything_is_free_again_wherever_it_ends(policy: Policy, step: str, how: str) -> None:
    device = FakeDevice()
    seat = seat_on(device)
    stop = Stop(time.monotonic() + 60)

    def end() -> None:
        if how == "cancelled":
            stop.cancel("no longer wanted")
        elif how == "expired":
            stop.deadline = time.monotonic()
        elif how == "lost":
            seat.locks.close("it hangs")

    script = Script(planned=40, breaks=step if how == "breaks" else None, hooks={step: end})
    work, job = one(script, device)
    expected = {
        "breaks": BrokenError,
        "cancelled": CancelledError,
        "expired": ExpiredError,
        "lost": DeviceLostError,
    }
    if step == "finish" and how != "breaks":
        # nothing is left to stop
        assert run_partition(policy, work, seat, stop) == b"\0"
    else:
        with pytest.raises(expected[how]):
            run_partition(policy, work, seat, stop)
    assert job.drops == [0] and device.used == 0 and seat.budget.held == 0
    assert held(seat) is None and seat.locks.mem.waiting == seat.locks.compute.waiting == 0
    # every step to there, and none after it
    done = STEPS[: STEPS.index(step) + 1]
    assert [s for s in STEPS if job.referee.calls[f"fake:0 {s}"]] == done
    if how != "lost":
        again, _ = one(Script(planned=100), device)
        assert run_partition(policy, again, seat, Stop()) == b"\0"


@EVERY
@pytest.mark.parametrize("step", STEPS)
def test_an_error_is_told_before_its_lock_is_free(policy: Policy, step: str) -> None:
    """Or whoever waits for the lock of a device that fails would have it, and begin."""
    device, told = FakeDevice(), list[tuple[BaseException, LockName | None, int]]()
    seat = seat_on(device)
    work, job = one(Script(breaks=step), device)

    def on_error(error: BaseException) -> None:
        told.append((error, held(seat), len(job.drops)))

    with pytest.raises(BrokenError) as raised:
        run_partition(policy, work, seat, Stop(), on_error)
    (lock,) = [leg.lock for leg in policy.legs if Step(step) in leg.steps]
    assert told == [(raised.value, lock, int(step == "finish"))]
    assert job.drops == [0] and held(seat) is None


@EVERY
def test_a_plan_beyond_the_device_is_refused_before_anything_is_done(policy: Policy) -> None:
    device = FakeDevice()
    work, job = one(Script(planned=101), device)
    with pytest.raises(ResourceError, match="w0: a partition takes"):
        run_partition(policy, work, seat_on(device), Stop())
    assert not any(job.referee.calls.values())


def test_the_device_is_trimmed_only_when_the_plan_needs_it_and_under_the_mem_lock() -> None:
    device, spans = FakeDevice(capacity=100), list[Span]()
    seat = seat_on(device, spans)
    where: list[LockName | None] = []
    device.on_trim = lambda: where.append(held(seat))

    def run(planned: int) -> None:
        run_partition(TWO_LOCKS, one(Script(planned=planned), device)[0], seat, Stop())

    run(60)
    # this stream has 60 of its own and what is left
    run(100)
    assert where == [] and seat.budget.trims == 0
    other = threading.Thread(target=run, args=(30,))
    other.start()
    other.join()
    # what the first stream kept was in the way of the second
    assert where == ["mem"] and seat.budget.trims == 1 and device.hidden_trims == 0
    (trim,) = (s for s in spans if s.name == "trim")
    (mem,) = (
        s for s in spans if s.lane == "fake:0 mem lock" and s.start_ns <= trim.start_ns <= s.end_ns
    )
    assert trim.lane == "w0" and trim.end_ns <= mem.end_ns


def test_a_failed_steps_variables_do_not_keep_its_memory() -> None:
    """The error is kept with its traceback; the buffers in its frames are not."""

    class Buffer:
        pass

    alive: list[weakref.ref[Buffer]] = []

    class Leaky(FakePartition):
        def compute(self, check: Callable[[], None]) -> None:
            buffer = Buffer()
            alive.append(weakref.ref(buffer))
            try:
                int("no number")
            except ValueError as e:
                raise BrokenError("in the middle of the kernels") from e

    device = FakeDevice()
    seat = seat_on(device)
    work: PartitionWork = Leaky(FakeJob("job", Script(), Referee()), 0, device)
    with pytest.raises(BrokenError) as caught:
        run_partition(TWO_LOCKS, work, seat, Stop())
    gc.collect()
    assert alive[0]() is None
    assert caught.traceback[-1].name == "compute"


def test_frames_are_forgotten_along_the_whole_chain_and_in_circles() -> None:
    a, b = BrokenError("a"), BrokenError("b")
    a.__context__, b.__cause__ = b, a
    forget_frames(a)


@pytest.mark.parametrize(
    ("policy", "staging"), [(WHOLE, 1), (KERNELS, 1), (AHEAD, 3), (TWO_LOCKS, 1)]
)
def test_how_many_stage_and_prepare_at_once(policy: Policy, staging: int) -> None:
    device, referee = FakeDevice(), Referee()
    seat = seat_on(device)
    together = threading.Barrier(3)
    # they meet in each step where they may
    hooks = {"prepare": lambda: wait(together)} if policy is not WHOLE else {}
    if policy is AHEAD:
        hooks["stage"] = lambda: wait(together)
    script = Script(seconds=dict.fromkeys(STEPS, 0.001), hooks=hooks)
    job = FakeJob("job", script, referee)
    threads = [
        threading.Thread(
            target=run_partition, args=(policy, FakePartition(job, k, device), seat, Stop())
        )
        for k in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert referee.most["fake:0 compute"] == 1 and referee.faults == []
    assert referee.most["fake:0 stage"] == staging
    assert referee.most["fake:0 prepare"] == (1 if policy is WHOLE else 3)
    assert referee.calls["fake:0 finish"] == 3 and device.used == seat.budget.held == 0


def wait(barrier: threading.Barrier) -> None:
    barrier.wait(120)
