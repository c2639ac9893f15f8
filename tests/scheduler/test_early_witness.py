"""Witnesses that are computed when partitions are staged: equal bytes, and within the plan."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch

from circuit_samples import sizes_of
from fake_devices import watchdog
from scheduler.small_proofs import ProvableCircuit, SmallJob, on, proofs_alone, small_site
from torchzk import api
from torchzk.backends import Backend
from torchzk.circuits.post_shapes import post_shape
from torchzk.errors import CancelledError, UnsatisfiedError
from torchzk.groth16.prover import Randomisers
from torchzk.groth16.r1cs import Assignment
from torchzk.scheduler import worker_device
from torchzk.scheduler.device_use import kernel_spans
from torchzk.scheduler.memory_budget import MemoryBudget
from torchzk.scheduler.plan import plan
from torchzk.scheduler.proof_service import ProofService
from torchzk.scheduler.proof_work import ProofPartition
from torchzk.scheduler.residents import Share, partition_room
from torchzk.scheduler.stages import RunRecord
from torchzk.timeline import Span, Timeline

Z = Randomisers(5, 6)
GB = 10**9
SEEDS = (1, 2, 3)


class Counted(ProvableCircuit):
    """The small circuit, and who computes how many of its witnesses; some find no memory."""

    def __init__(self, fail: int = 0) -> None:
        super().__init__(post_shape("window", 2048))
        self.made: list[weakref.ref[torch.Tensor]] = []
        self.fail = fail

    def assignment(self, backend: Backend, witness: Any) -> Assignment:
        if self.fail:
            self.fail -= 1
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 4.00 GiB")
        made = super().assignment(backend, witness)
        self.made.append(weakref.ref(made.aux))
        return made


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, device: torch.device) -> Iterator[api.Site]:
    made = small_site(tmp_path_factory.mktemp("keys"), device)
    with made.keys:
        yield made


@pytest.fixture(scope="module")
def expected(site: api.Site) -> bytes:
    return proofs_alone(site, SmallJob(SEEDS), Z)


@pytest.fixture(autouse=True)
def bark() -> Iterator[None]:
    with watchdog():
        yield


def early(
    site: api.Site, circuit: Counted, spans: list[Span] | None = None, **config: Any
) -> tuple[api.Site, list[str]]:
    warnings: list[str] = []
    watched = Timeline() if spans is None else Timeline(on_close=spans.append)
    made = on(site, watched, **{"early_witness": True, **config})
    session = replace(made.session, circuit=circuit, warn=warnings.append)
    vars(session).update(r1cs=site.session.r1cs, sizes=site.session.sizes)
    return replace(made, session=session), warnings


def partition_of(site: api.Site, job: SmallJob, timeline: Timeline | None = None) -> ProofPartition:
    return ProofPartition(site, job, 0, Z, timeline or Timeline())


@pytest.mark.parametrize(("policy", "workers"), [("two-locks", 3), ("whole", 2)])
def test_the_bytes_are_the_same_and_each_witness_is_computed_once(
    site: api.Site, expected: bytes, policy: str, workers: int
) -> None:
    circuit, spans = Counted(), list[Span]()
    here, warnings = early(site, circuit, spans, policy=policy, workers=workers)
    assert here.staged_bytes == here.plan().witness_bytes > here.session.sizes.witness.given
    with ProofService([here]) as service:
        job = service.submit(SmallJob(SEEDS), [Z] * 3)
    assert job.result() == expected and len(circuit.made) == 3 and not warnings
    named = [s for s in spans if s.name == "early witness"]
    assert sorted(s.lane for s in named) == [f"partition {k}" for k in range(3)]
    # beside another partition's kernels, whose stages say how busy the device is
    kernels = kernel_spans(RunRecord("t", tuple(spans)))
    assert {k.host.name for k in kernels}.isdisjoint({"early witness"})
    assert sum(k.host.name == "witness" for k in kernels) == 3


def test_it_is_computed_while_another_partition_has_the_compute_lock(
    site: api.Site, expected: bytes
) -> None:
    """The first to compute waits in its kernels until the witness of the next one is there."""
    circuit, beside = Counted(), threading.Event()
    here, _ = early(site, circuit, workers=2)

    def opened(name: str) -> None:
        if name == "products":
            # of the first partition: the second one's has been made, or is by the other worker
            assert beside.wait(60)

    def closed(span: Span) -> None:
        if len(circuit.made) > 1:
            beside.set()

    watched = Timeline(on_open=opened, on_close=closed)
    session = replace(here.session, timeline=watched)
    vars(session).update(r1cs=site.session.r1cs, sizes=site.session.sizes)
    with ProofService([replace(here, session=session)]) as service:
        job = service.submit(SmallJob(SEEDS), [Z] * 3)
    assert job.result() == expected and beside.is_set()


def test_without_memory_for_it_the_partition_goes_on(site: api.Site, expected: bytes) -> None:
    here, warnings = early(site, Counted(fail=1), workers=2)
    with ProofService([here]) as service:
        job = service.submit(SmallJob(SEEDS), [Z] * 3)
    assert job.result() == expected
    (said,) = warnings
    assert "ran out while computing early a witness" in said and "goes on without" in said


def test_a_smaller_plan_computes_the_witness_again(
    site: api.Site, expected: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    circuit = Counted()
    here, warnings = early(site, circuit)
    real, times = here.session.backend.quotient, [1]

    def scarce(*args: Any, **kwargs: Any) -> torch.Tensor:
        if times:
            times.pop()
            raise MemoryError
        return real(*args, **kwargs)

    monkeypatch.setattr(here.session.backend, "quotient", scarce)
    part = partition_of(here, SmallJob(SEEDS))
    part.stage()
    assert len(circuit.made) == 1
    part.compute(lambda: None)
    part.drop()
    assert part.finish() == expected[:192] and len(circuit.made) == 2
    assert "proving again with a plan" in warnings[0]
    assert all(made() is None for made in circuit.made)


@pytest.mark.parametrize("how", ["never computed", "stopped", "wrong"])
def test_nothing_is_left_however_it_ends(site: api.Site, how: str) -> None:
    circuit = Counted()
    here, _ = early(site, circuit)
    residents, device = here.session.residents, here.session.device
    part = partition_of(here, SmallJob(SEEDS[:1], "row" if how == "wrong" else ""))
    part.stage()
    # a key that comes waits for it
    assert len(residents._at_work[device]) == 1 and circuit.made[0]() is not None

    def check() -> None:
        if how == "stopped":
            raise CancelledError("no longer wanted")

    if how != "never computed":
        with pytest.raises(CancelledError if how == "stopped" else UnsatisfiedError):
            part.compute(check)
    part.drop()
    assert not residents._at_work[device] and circuit.made[0]() is None


def test_what_is_dropped_before_its_kernels_is_waited_for(
    site: api.Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it is made from is another stream's memory, which others have after the drop."""
    here, _ = early(site, Counted())
    part = partition_of(here, SmallJob(SEEDS))
    part.stage()
    given, seen = part._given, list[bool]()

    class Late:
        def wait(self) -> None:
            seen.append(part._given is given)
            # the device has failed meanwhile
            raise RuntimeError("CUDA error: an illegal memory access was encountered")

    part._until = Late()  # type: ignore[assignment]
    part.drop()
    assert seen == [True] and part._given is None


def test_where_there_is_no_room_or_nobody_asks_nothing_changes(site: api.Site) -> None:
    given = site.session.sizes.witness.given
    assert site.staged_bytes == given and site.session.stage_bytes == site.plan().stage_bytes
    circuit = Counted()
    here, _ = early(site, circuit, workers=2)
    found = here.plan()
    tight = replace(found, budget=found.peak + found.witness_bytes - 1)
    assert found.witnesses_beside > 0 == tight.witnesses_beside
    in_turn = replace(found, room=replace(found.room, in_turn=True))
    assert in_turn.witnesses_beside == 0
    # what is told of the plan counts what may be there of the other worker
    by_stage = here.session.stage_bytes
    assert by_stage == {k: n + found.witness_bytes for k, n in found.stage_bytes.items()}
    here.session._settle(tight, 0)
    assert here.staged_bytes == given and here.session.stage_bytes == tight.stage_bytes
    part = partition_of(here, SmallJob(SEEDS))
    assert part.planned_bytes == given
    part.stage()
    assert circuit.made == []
    part.drop()


@pytest.mark.parametrize(
    ("name", "n"), [("porep-32GiB", 96), ("porep-32GiB", 141), ("update-32GiB", 48)]
)
def test_what_is_staged_beside_a_peak_fits_the_budget(name: str, n: int) -> None:
    pytest.importorskip("triton")
    found = plan(sizes_of(name), "triton", n * GB)
    given, staged = sizes_of(name).witness.given, found.witness_bytes
    assert found.witnesses_beside > 0
    room = partition_room("cuda:0", [Share(found, 0, staged)])
    budget = MemoryBudget("cuda:0", room)
    promises = [budget.ask(str(k), staged) for k in range(99)]
    others = sum(promise.ready() for promise in promises) - 1
    # the one that computes is counted in the peak, and its promise as well
    assert others >= min(found.witnesses_beside, 98)
    assert found.peak + others * staged <= found.budget
    # its own bytes are those of the stage that computes it
    assert found.witness_bytes < found.stage_bytes["witness"] - found.resident_bytes + given


def test_a_promise_that_became_too_large_is_had_alone() -> None:
    """A key came after it was asked for: waiting would never end."""
    budget = MemoryBudget("cuda:0", 100)
    large, small = budget.ask("a", 90), budget.ask("b", 10)
    budget.resize(20)
    assert small.ready() and not large.ready()
    small.give_back()
    assert large.ready()
    again = budget.ask("c", 10)
    assert not again.ready()
    large.give_back()
    assert again.ready()


def test_its_kernels_are_launched_on_the_compute_stream(
    site: api.Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There what is freed is given away in the order of the work, whoever launched it."""
    here, _ = early(site, Counted())
    asked: list[torch.device] = []

    def stream(device: torch.device) -> Any:
        asked.append(device)
        return worker_device.compute_stream(device)

    monkeypatch.setattr("torchzk.scheduler.proof_work.compute_stream", stream)
    part = partition_of(here, SmallJob(SEEDS))
    part.stage()
    assert asked == [here.session.device]
    part.drop()
