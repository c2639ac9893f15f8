"""The two locks of a device: in order, never both, fair, and free again whatever happens."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from torchzk.errors import (
    CancelledError,
    DeviceLostError,
    ExpiredError,
    LockTimeoutError,
    ProtocolError,
    ResourceError,
)
from torchzk.scheduler.locks import DeviceLocks, FairLock
from torchzk.scheduler.memory_budget import MemoryBudget
from torchzk.scheduler.stages import stages_of
from torchzk.scheduler.stop import Stop
from torchzk.timeline import Span, Timeline


def until(condition: Callable[[], bool]) -> None:
    """Wait for what another thread is about to do."""
    end = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < end, "it never happened"
        time.sleep(0.0005)


def in_line(lock: FairLock, names: list[str], served: list[str]) -> list[threading.Thread]:
    """Threads that wait for a lock, in this order."""

    def serve(name: str) -> None:
        with lock.held(name):
            served.append(name)

    threads = []
    for name in names:
        before = lock.waiting
        threads.append(threading.Thread(target=serve, args=(name,)))
        threads[-1].start()
        until(lambda before=before: lock.waiting == before + 1)  # type: ignore[misc]
    return threads


def test_first_come_first_served() -> None:
    lock, served = FairLock("lock", Timeline()), list[str]()
    names = [f"w{k}" for k in range(12)]
    with lock.held("first"):
        threads = in_line(lock, names, served)
    for thread in threads:
        thread.join()
    assert served == names and lock.waiting == 0


def test_waits_and_holds_are_spans_that_do_not_nest() -> None:
    spans: list[Span] = []
    lock = FairLock("d mem lock", Timeline(on_close=spans.append))
    with lock.held("first"):
        threads = in_line(lock, ["a", "b", "c"], [])
        time.sleep(0.002)
    for thread in threads:
        thread.join()
    waits = {s.name: s for s in spans if s.lane == "d mem lock waits"}
    holds = {s.name: s for s in spans if s.lane == "d mem lock"}
    assert len(spans) == 8 and waits.keys() == holds.keys() == {"first", "a", "b", "c"}
    order = sorted(holds.values(), key=lambda s: s.start_ns)
    assert [s.name for s in order] == ["first", "a", "b", "c"]
    assert all(x.end_ns <= y.start_ns for x, y in zip(order, order[1:], strict=False))
    # each waited until the one before it was done, and held from then on
    assert all(waits[n].end_ns <= holds[n].start_ns for n in holds)
    assert waits["a"].seconds >= 0.002 and not any(s.failed for s in spans)
    # who came first leaves first, so no wait lies inside another
    assert {stage.depth for stage in stages_of(spans)} == {0}


@pytest.mark.parametrize(("first", "second"), [("mem", "compute"), ("compute", "mem")])
def test_both_at_once_is_refused_in_whatever_way(first: str, second: str) -> None:
    locks = DeviceLocks("d", Timeline())
    pair = {"mem": locks.mem, "compute": locks.compute}
    other = "while it holds d (mem|compute) lock: let go of one"
    with pair[first].held("w"):
        with pytest.raises(ProtocolError, match=other), pair[second].held("w"):
            pass
        with pytest.raises(ProtocolError, match=other), pair[first].held("w"):
            pass
        with pytest.raises(ProtocolError), locks.turn("w").holding(second):  # type: ignore[arg-type]
            pass
        assert pair[first].held_by_caller and not pair[second].held_by_caller
    # another thread may hold the other one meanwhile, and nothing is left behind
    with pair[first].held("w"), ThreadPoolExecutor(1) as pool:
        assert pool.submit(lambda: hold(pair[second])).result(120)
    assert hold(pair[first]) and hold(pair[second])


def hold(lock: FairLock) -> bool:
    with lock.held("somebody"):
        return lock.held_by_caller


@pytest.mark.parametrize("order", [("compute", "mem"), ("mem", "mem"), ("compute", "compute")])
def test_one_turn_takes_mem_then_compute_each_once(order: tuple[str, str]) -> None:
    locks = DeviceLocks("d", Timeline())
    turn = locks.turn("w")
    with turn.holding(order[0]):  # type: ignore[arg-type]
        pass
    with (
        pytest.raises(ProtocolError, match="mem comes first, then compute, each once"),
        turn.holding(order[1]),  # type: ignore[arg-type]
    ):
        pass
    turn = locks.turn("w")
    with turn.holding("mem"):
        assert locks.mem.held_by_caller
    with turn.holding("compute"):
        assert locks.compute.held_by_caller and not locks.mem.held_by_caller


def test_a_timeout_names_the_holder_and_for_how_long() -> None:
    spans: list[Span] = []
    lock = FairLock("d compute lock", Timeline(on_close=spans.append), timeout=0.03)
    with lock.held("worker 7"), ThreadPoolExecutor(1) as pool:
        time.sleep(0.1)
        error = pool.submit(lambda: hold(lock)).exception(120)
    assert isinstance(error, LockTimeoutError) and isinstance(error, ResourceError)
    said = "somebody waited ([0-9.]+) s for d compute lock: worker 7 has held it for ([0-9.]+) s"
    found = re.fullmatch(said, str(error))
    assert found and float(found[2]) >= 0.1 and float(found[2]) > float(found[1])
    assert [s.name for s in spans if s.failed] == ["somebody"]
    assert hold(lock)


def test_cancel_ends_a_wait_and_the_queue_goes_on() -> None:
    lock, served, stop = FairLock("lock", Timeline()), list[str](), Stop()

    def cancelled() -> None:
        with lock.held("cancelled", stop):
            served.append("cancelled")

    with ThreadPoolExecutor(1) as pool:
        with lock.held("first"):
            future = pool.submit(cancelled)
            until(lambda: lock.waiting == 1)
            (thread,) = in_line(lock, ["next"], served)
            stop.cancel("no longer wanted")
            error = future.exception(120)
            assert isinstance(error, CancelledError) and str(error) == "no longer wanted"
            assert lock.waiting == 1
        thread.join()
    assert served == ["next"]
    with pytest.raises(CancelledError), lock.held("too late", stop):
        pass
    assert hold(lock)


def test_a_deadline_ends_a_wait() -> None:
    lock = FairLock("lock", Timeline())

    def expire() -> None:
        with lock.held("w", Stop(time.monotonic() + 0.02)):
            pass

    with lock.held("first"), ThreadPoolExecutor(1) as pool:
        assert isinstance(pool.submit(expire).exception(120), ExpiredError)
        assert lock.waiting == 0


def test_closing_ends_all_waits_and_the_holder_is_let_finish() -> None:
    locks = DeviceLocks("d", Timeline())
    with ThreadPoolExecutor(4) as pool:
        with locks.mem.held("holder"):
            futures = [pool.submit(hold, locks.mem) for _ in range(4)]
            until(lambda: locks.mem.waiting == 4)
            locks.close("d is set aside: it hangs")
            locks.close("for another reason")
            errors = [future.exception(120) for future in futures]
        assert {str(e) for e in errors} == {"d is set aside: it hangs"}
    with pytest.raises(DeviceLostError), locks.compute.held("w"):
        pass
    with pytest.raises(DeviceLostError):
        locks.check()


@pytest.mark.parametrize("where", ["body", "open wait", "close wait", "open hold", "close hold"])
def test_free_again_whatever_raises(where: str) -> None:
    """A listener of the timeline that breaks, too, leaves no lock behind."""
    broken = True

    def listen(now: str) -> None:
        if broken and where == now:
            raise OSError(where)

    opened: list[str] = []

    def on_open(_: str) -> None:
        opened.append("")
        listen("open wait" if len(opened) == 1 else "open hold")

    timeline = Timeline(
        on_open=on_open,
        on_close=lambda s: listen("close wait" if s.lane == "lock waits" else "close hold"),
    )
    lock = FairLock("lock", timeline)
    with pytest.raises(OSError, match=where), lock.held("w"):
        listen("body")
    broken = False
    assert not lock.held_by_caller and lock.waiting == 0 and hold(lock)


def test_memory_is_waited_for_at_the_head_of_the_queue() -> None:
    """Who asks for much is not overtaken by who asks for little, and all get what they asked."""
    budget, locks = MemoryBudget("d", 100), DeviceLocks("d", Timeline())
    budget.watch(locks.mem.wake)
    first = budget.ask("first", 70)
    with locks.mem.held("first", gate=first):
        pass
    admitted: list[str] = []

    def admit(name: str, n: int) -> None:
        with locks.mem.held(name, gate=budget.ask(name, n)):
            admitted.append(name)

    with ThreadPoolExecutor(2) as pool:
        large = pool.submit(admit, "large", 60)
        until(lambda: locks.mem.waiting == 1)
        small = pool.submit(admit, "small", 10)
        until(lambda: locks.mem.waiting == 2)
        time.sleep(0.005)
        assert admitted == [] and budget.held == 70
        first.give_back()
        large.result(120)
        small.result(120)
    assert admitted == ["large", "small"] and budget.held == 70 and budget.peak == 70


def test_a_wait_for_memory_that_takes_too_long_names_who_has_it() -> None:
    budget, lock = MemoryBudget("d", 4 << 30), FairLock("d mem lock", Timeline(), timeout=0.01)
    with lock.held("worker 0", gate=budget.ask("worker 0", 3 << 30)):
        pass
    more = budget.ask("worker 1", 2 << 30)
    with pytest.raises(LockTimeoutError, match=r"it is free, but of 4.00 GiB on d 2.00 are"):
        lock.held("worker 1", gate=more).__enter__()
    assert more.reason().endswith("held are, in GiB: worker 0 3.00")
    assert budget.held == 3 << 30


def test_a_budget_counts_each_promise_once() -> None:
    changes: list[int] = []
    budget = MemoryBudget("d", 100, changes.append)
    with pytest.raises(ResourceError, match="plan with less"):
        budget.ask("w", 101)
    with pytest.raises(ProtocolError):
        budget.ask("w", -1)
    a, b, c = budget.ask("a", 60), budget.ask("b", 50), budget.ask("c", 40)
    assert a.ready() and not b.ready() and c.ready() and budget.held == 100
    with pytest.raises(ProtocolError):
        a.ready()
    a.give_back()
    a.give_back()
    b.give_back()
    assert budget.held == 40 and b.ready() and budget.peak == 100
    assert changes == [60, 100, 40, 90]


def test_a_promise_that_became_too_large_is_had_alone() -> None:
    """A key came after it was asked for: waiting would never end."""
    budget = MemoryBudget("d", 100)
    large, small = budget.ask("a", 90), budget.ask("b", 10)
    budget.resize(20)
    assert small.ready() and not large.ready()
    small.give_back()
    assert large.ready()
    again = budget.ask("c", 10)
    assert not again.ready()
    large.give_back()
    assert again.ready()
