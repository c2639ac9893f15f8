"""Simulated time: order, fair locks, bounded queues, a host that is shared evenly."""

from __future__ import annotations

import pytest

from torchzk.scheduler.simulation.clock import Clock, Event, Lock, Process, Queue
from torchzk.scheduler.simulation.resources import Host
from torchzk.scheduler.simulation.scenario import HostWork, Machine


def test_things_happen_in_order_of_time_and_then_of_asking() -> None:
    clock, seen = Clock(), []

    def sleep(name: str, seconds: float) -> Process:
        yield seconds
        seen.append((name, clock.now))

    for name, seconds in (("c", 2.0), ("a", 1.0), ("b", 1.0)):
        clock.spawn(sleep(name, seconds))
    clock.run()
    assert seen == [("a", 1.0), ("b", 1.0), ("c", 2.0)]


def test_an_event_that_happened_holds_nobody_up() -> None:
    clock, seen = Clock(), []

    def wait(event: Event) -> Process:
        yield event
        yield event
        seen.append(clock.now)

    ended = clock.spawn(iter_of(3.0))
    clock.spawn(wait(ended))
    clock.run()
    assert ended.happened and seen == [3.0]


def iter_of(*seconds: float) -> Process:
    yield from seconds


def test_a_lock_has_one_holder_and_serves_in_order() -> None:
    clock, lock, seen = Clock(), Lock(Clock()), []
    lock = Lock(clock)

    def hold(name: str, arrives: float) -> Process:
        yield arrives
        yield from lock.take()
        start = clock.now
        yield 1.0
        seen.append((name, start))
        lock.leave()

    # the first comes again the moment it leaves: those who wait go before it
    def hold_twice() -> Process:
        yield from hold("a", 0.0)
        yield from hold("a again", 0.0)

    clock.spawn(hold_twice())
    clock.spawn(hold("c", 0.5))
    clock.spawn(hold("b", 0.25))
    clock.run()
    assert seen == [("a", 0.0), ("b", 1.0), ("c", 2.0), ("a again", 3.0)]
    assert lock.holder_leaves is None
    with pytest.raises(RuntimeError, match="nobody holds"):
        lock.leave()


def test_a_queue_keeps_order_and_stops_who_finds_it_full() -> None:
    clock, put, got = Clock(), [], []
    queue: Queue[int] = Queue(clock, 2)

    def fill() -> Process:
        for item in range(5):
            yield from queue.put(item)
            put.append(clock.now)

    def drain() -> Process:
        for _ in range(5):
            yield 1.0
            got.append((yield from queue.get()))

    clock.spawn(fill())
    clock.spawn(drain())
    clock.run()
    assert got == [0, 1, 2, 3, 4]
    assert put == [0.0, 0.0, 1.0, 2.0, 3.0]


def machine(cores: int = 8, contention: float = 0.0) -> Machine:
    return Machine(memory=1, cores=cores, contention=contention)


def ends(host_of: Machine, *work: tuple[float, HostWork]) -> list[float]:
    """When pieces of work end that begin at given moments."""
    clock = Clock()
    host, seen = Host(clock, host_of), {}

    def do(number: int, begins: float, piece: HostWork) -> Process:
        yield begins
        yield from host.work(piece)
        seen[number] = clock.now

    for number, (begins, piece) in enumerate(work):
        clock.spawn(do(number, begins, piece))
    clock.run()
    return [seen[number] for number in range(len(work))]


def test_a_host_with_room_slows_nobody() -> None:
    assert ends(machine(), (0.0, HostWork(seconds=2.0)), (1.0, HostWork(seconds=3.0))) == [2.0, 4.0]


def test_cores_are_shared_evenly() -> None:
    both = HostWork(seconds=2.0, cores=8)
    assert ends(machine(), (0.0, both), (0.0, both)) == pytest.approx([4.0, 4.0])
    # the first is half done when the second comes: 1 s alone, 2 s at half speed, then 1 s alone
    assert ends(machine(), (0.0, both), (1.0, both)) == pytest.approx([3.0, 4.0])


def test_contention_slows_all_alike() -> None:
    piece = HostWork(seconds=2.0)
    three = ends(machine(contention=0.25), *[(0.0, piece)] * 3)
    assert three == pytest.approx([3.0] * 3)


def test_no_work_takes_no_time() -> None:
    assert ends(machine(), (1.0, HostWork())) == [1.0]
