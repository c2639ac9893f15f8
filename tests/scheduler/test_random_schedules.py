"""Random jobs, faults, cancels and devices under every policy: what must hold, always holds.

A seed fixes the jobs and what breaks; the threads' order is the system's, stirred by switching
between them as often as Python can.
"""

from __future__ import annotations

import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from fake_devices import STEPS, FakeDevice, FakeJob, Referee, Script, count_ends, watchdog
from torchzk.errors import DeviceLostError, QueueFullError
from torchzk.scheduler.memory_budget import MemoryBudget
from torchzk.scheduler.policies import AHEAD, POLICIES, WHOLE
from torchzk.scheduler.service import DeviceSetup, Limits, Service
from torchzk.scheduler.work import Job, JobState, Priority
from torchzk.timeline import Span, Timeline

SEEDS = range(32)


@pytest.fixture(autouse=True)
def stirred() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(2e-6)
    yield
    sys.setswitchinterval(before)


@dataclass
class World:
    """One run: what it was made of, and what came of it."""

    rng: random.Random
    policy_name: str
    devices: list[FakeDevice]
    budgets: list[MemoryBudget]
    referee: Referee = field(default_factory=Referee)
    spans: list[Span] = field(default_factory=list)
    works: list[FakeJob] = field(default_factory=list)
    jobs: list[Job] = field(default_factory=list)
    cancelled: set[str] = field(default_factory=set)
    hurried: set[str] = field(default_factory=set)


def run(seed: int) -> World:
    rng = random.Random(seed)
    devices = [FakeDevice(f"d{k}", rng.choice((40, 100))) for k in range(rng.randint(1, 3))]
    budgets = [MemoryBudget(d.name, d.capacity) for d in devices]
    world = World(rng, [*POLICIES][seed % len(POLICIES)], devices, budgets)
    setups = [DeviceSetup(d, b, rng.randint(1, 4)) for d, b in zip(devices, budgets, strict=True)]
    limits = Limits(
        submitted=rng.choice((3, 100)),
        read=rng.randint(1, 3),
        checked=rng.randint(1, 3),
        proving=rng.randint(1, 4),
        proved=rng.randint(1, 2),
        readers=rng.randint(1, 2),
        checkers=rng.randint(1, 2),
        finishers=rng.randint(1, 2),
    )
    timeline = Timeline(on_close=world.spans.append)
    policy = POLICIES[world.policy_name]
    with watchdog(), Service(setups, policy, timeline, limits) as service:
        chaos = threading.Thread(target=disturb, args=(world, random.Random(seed + 1)))
        chaos.start()
        try:
            for k in range(rng.randint(15, 40)):
                submit(world, service, k)
        finally:
            chaos.join()
    return world


def submit(world: World, service: Service, k: int) -> None:
    rng = world.rng
    script = Script(
        n_partitions=rng.choice((1, 1, 2, 4, 7)),
        planned=rng.randint(0, 40),
        seconds={step: rng.choice((0, 0, 1e-4, 1e-3)) for step in STEPS},
        breaks=rng.choice(STEPS) if rng.random() < 0.15 else None,
    )
    script.at_partition = rng.randrange(script.n_partitions)
    work = FakeJob(f"job {k}", script, world.referee)
    hurry = rng.random() < 0.1
    try:
        job = service.submit(
            work.name,
            work,
            rng.choice([*Priority]),
            seconds=rng.uniform(0, 0.02) if hurry else None,
            patience=10,
        )
    except (QueueFullError, DeviceLostError):
        return
    if hurry:
        world.hurried.add(work.name)
    world.works.append(work)
    world.jobs.append(job)


def disturb(world: World, rng: random.Random) -> None:
    """Cancel a few jobs, and now and then take a device away."""
    losing = rng.random() < 0.4
    for _ in range(8):
        time.sleep(rng.uniform(0, 0.01))
        if world.jobs:
            job = rng.choice(world.jobs)
            world.cancelled.add(job.name)
            job.cancel()
    if losing:
        rng.choice(world.devices).gone = True


@pytest.mark.parametrize("seed", SEEDS)
def test_what_must_hold_holds(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    ends = count_ends(monkeypatch)
    world = run(seed)
    assert ends == Counter(job.name for job in world.jobs), "a job was lost or ended twice"
    assert world.referee.faults == []
    all_lost = all(d.gone for d in world.devices)
    for job, work in zip(world.jobs, world.works, strict=True):
        allowed = {JobState.FAILED if work.script.breaks else JobState.DONE}
        if job.name in world.cancelled:
            allowed.add(JobState.CANCELLED)
        if job.name in world.hurried:
            allowed.add(JobState.EXPIRED)
        if all_lost:
            allowed.add(JobState.FAILED)
        assert job.state in allowed, (job.name, job.state, job.error, work.script)
        if job.state is JobState.DONE:
            assert job.result() == bytes(range(work.n_partitions))
        # whatever was begun was dropped, once a time
        assert Counter(work.started) == Counter(work.drops)
        if not any(d.gone for d in world.devices):
            assert len(set(work.started)) == len(work.started), "a partition was proved twice"
    check_memory(world)
    check_places(world)
    for device in world.devices:
        check_locks(world, device.name)


def check_memory(world: World) -> None:
    for device, budget in zip(world.devices, world.budgets, strict=True):
        assert device.used == budget.held == 0
        assert device.peak <= budget.peak <= device.capacity
        assert device.trims == budget.trims


def check_places(world: World) -> None:
    most, policy = world.referee.most, POLICIES[world.policy_name]
    for device in world.devices:
        assert most[f"{device.name} compute"] <= 1
        assert policy is AHEAD or most[f"{device.name} stage"] <= 1
        assert policy is not WHOLE or most[f"{device.name} finish"] <= 1


def check_locks(world: World, device: str) -> None:
    holds: dict[str, list[Span]] = {
        name: sorted(
            (s for s in world.spans if s.lane == f"{device} {name} lock"),
            key=lambda s: s.start_ns,
        )
        for name in ("mem", "compute")
    }
    for spans in holds.values():
        assert all(a.end_ns <= b.start_ns for a, b in zip(spans, spans[1:], strict=False))
    workers = {s.name for spans in holds.values() for s in spans}
    for worker in workers:
        own = sorted(
            (s.start_ns, s.end_ns, name) for name in holds for s in holds[name] if s.name == worker
        )
        # nobody holds two, and each compute comes right after a mem of the same turn
        assert all(a[1] <= b[0] for a, b in zip(own, own[1:], strict=False))
        names = [name for *_, name in own]
        assert names[0] == "mem" if names else True
        assert all(a == "mem" for a, b in zip(names, names[1:], strict=False) if b == "compute")


def test_the_schedules_are_worth_their_name() -> None:
    """Over the seeds every policy and every state comes up, and devices are lost and trimmed."""
    worlds = [run(seed) for seed in SEEDS[:12]]
    states = Counter(job.state for world in worlds for job in world.jobs)
    assert set(states) >= {JobState.DONE, JobState.FAILED, JobState.CANCELLED, JobState.EXPIRED}
    assert {world.policy_name for world in worlds} == set(POLICIES)
    assert sum(d.trims for world in worlds for d in world.devices) > 0
    assert any(d.gone for world in worlds for d in world.devices)
    assert max(n for world in worlds for n in world.referee.most.values()) > 1
