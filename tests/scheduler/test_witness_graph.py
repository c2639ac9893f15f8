"""Witnesses by graphs: equal bytes, values of their own, and nothing left when they must go."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch

from circuit_samples import sizes_of
from fake_devices import watchdog
from scheduler.graph_stand_ins import CUDA, Replayed, Watched, broken, watched
from scheduler.small_proofs import ProvableCircuit, SmallJob, on, proofs_alone, small_site
from torchzk import api
from torchzk.backends import Backend
from torchzk.circuits.post_shapes import post_shape
from torchzk.device_cache import kept_by_device
from torchzk.errors import CancelledError, ResourceError, UnsatisfiedError
from torchzk.groth16.prover import Randomisers
from torchzk.groth16.r1cs import Assignment
from torchzk.params.fields import FR
from torchzk.scheduler import witness_graph
from torchzk.scheduler.plan import plan
from torchzk.scheduler.proof_service import ProofService
from torchzk.scheduler.proof_work import ProofPartition
from torchzk.timeline import Timeline

Z = Randomisers(5, 6)
GB = 10**9
SEEDS = (1, 2, 3)


class Graphed(ProvableCircuit):
    """The small circuit with a constant that is kept by device, watched when it is launched."""

    def __init__(self) -> None:
        super().__init__(post_shape("window", 2048))
        self.launched = 0
        self.constants = set[torch.Tensor]()

    def assignment(self, backend: Backend, witness: Any) -> Assignment:
        self.launched += 1
        zeros = _zeros(witness.aux.shape[1], witness.aux.device)
        self.constants.add(zeros)
        return Assignment(witness.inputs.clone(), backend.add(witness.aux, zeros, FR))


@kept_by_device(1)
def _zeros(n: int, device: torch.device) -> torch.Tensor:
    return torch.zeros(8, n, dtype=torch.int32).to(device)


@pytest.fixture(autouse=True)
def graphs(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Replayed] | type[Watched]]:
    with watchdog():
        yield watched(monkeypatch)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, device: torch.device) -> Iterator[api.Site]:
    made = small_site(tmp_path_factory.mktemp("keys"), device)
    with made.keys:
        yield made


@pytest.fixture(scope="module")
def expected(site: api.Site) -> bytes:
    return proofs_alone(site, SmallJob(SEEDS), Z)


def graphed(site: api.Site, **config: Any) -> tuple[api.Site, Graphed, list[str]]:
    """The site with a circuit and graphs of its own, and what is warned of."""
    warnings, circuit = list[str](), Graphed()
    made = on(site, **{"witness_graph": True, **config})
    session = replace(made.session, circuit=circuit, warn=warnings.append)
    vars(session).update(r1cs=site.session.r1cs, sizes=site.session.sizes)
    session.residents.graphs.drop(session.device)
    assert session.plan.witness_graph
    return replace(made, session=session), circuit, warnings


def proof(
    site: api.Site, seed: int, bad: str = "", check: Callable[[], None] = lambda: None
) -> bytes:
    part = ProofPartition(site, SmallJob((seed,), bad), 0, Z, Timeline())
    try:
        part.stage()
        part.compute(check)
    finally:
        part.drop()
    return part.finish()


@pytest.mark.parametrize(("policy", "workers"), [("two-locks", 3), ("whole", 2)])
def test_the_bytes_are_the_same(
    site: api.Site, expected: bytes, graphs: type[Replayed], policy: str, workers: int
) -> None:
    here, circuit, warnings = graphed(site, policy=policy, workers=workers)
    with ProofService([here]) as service:
        job = service.submit(SmallJob(SEEDS), [Z] * 3)
    assert job.result() == expected and not warnings
    (made,) = graphs.made
    graph = made()
    # plainly, captured and replayed, replayed
    assert graph is not None and graph.replays == 2
    assert (circuit.launched == 2) == CUDA
    here.session.forget()
    del graph
    assert made() is None and len(here.session.residents.graphs) == 0


def test_one_that_ends_early_leaves_the_next_one_right(
    site: api.Site, expected: bytes, graphs: type[Replayed]
) -> None:
    here, _, _ = graphed(site)
    assert proof(here, 1) == expected[:192]
    assert proof(here, 2) == expected[192:384]
    stages: list[str] = []

    def check() -> None:
        stages.append("one")
        if len(stages) == 2:
            raise CancelledError("no longer wanted")

    with pytest.raises(CancelledError) as kept:
        # its witness is launched by then
        proof(here, 7, check=check)
    assert proof(here, 3) == expected[384:]
    with pytest.raises(UnsatisfiedError):
        proof(here, 3, bad="row")
    assert proof(here, 1) == expected[:192]
    (made,) = graphs.made
    here.session.forget()
    # an error that somebody keeps does not keep it
    assert made() is None and kept.value.__traceback__ is not None


def test_what_caches_forget_the_graph_keeps(site: api.Site, expected: bytes) -> None:
    here, circuit, _ = graphed(site)
    for k, seed in enumerate(SEEDS):
        assert proof(here, seed) == expected[192 * k : 192 * k + 192]
        _zeros.cache_clear()
        # what was its memory may be anybody's by now
        device = here.session.device
        others = [torch.ones(1 << n, dtype=torch.int32, device=device) for n in range(15)]
        assert len(others) == 15
    # a capture could not make it anew
    assert len(circuit.constants) == 1


def test_a_plan_without_one_gives_its_memory_back(
    site: api.Site, expected: bytes, graphs: type[Replayed]
) -> None:
    here, _, _ = graphed(site)
    for seed in SEEDS[:2]:
        proof(here, seed)
    (made,) = graphs.made
    session, found = here.session, here.session.plan
    assert made() is not None
    # the same plan, as when another session of the circuit is opened
    session._settle(found, 0)
    assert made() is not None
    session._settle(replace(found, witness_graph=False), 0)
    assert made() is None
    assert proof(here, 3) == expected[384:] and len(session.residents.graphs) == 0
    session._settle(found, 0)
    for seed in SEEDS[:2]:
        proof(here, seed)
    made = graphs.made[-1]
    assert made() is not None
    # where memory ran out there is none any more
    assert not session.replan().witness_graph and made() is None


def test_a_key_that_comes_or_goes_takes_it_away(site: api.Site, graphs: type[Replayed]) -> None:
    here, _, _ = graphed(site)
    session, residents = here.session, here.session.residents
    for other in (session, site.session):
        for seed in SEEDS[:2]:
            proof(here, seed)
        made = graphs.made[-1]
        assert made() is not None
        with residents.hold(other, None):
            assert made() is None
            for seed in SEEDS[:2]:
                proof(here, seed)
        assert len(residents.graphs) == 0


def test_without_memory_for_it_witnesses_are_computed_plainly(
    site: api.Site, expected: bytes, graphs: type[Replayed], monkeypatch: pytest.MonkeyPatch
) -> None:
    here, circuit, warnings = graphed(site)
    fault = torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 4.00 GiB. GPU 0 has")
    monkeypatch.setattr(witness_graph, "Captured", broken(fault))
    proofs = [proof(here, seed) for seed in SEEDS]
    assert b"".join(proofs) == expected and circuit.launched == 3
    (said,) = warnings
    assert said == (
        "small: the witness is no graph, for lack of memory (CUDA out of memory. Tried to allocate "
        "4.00 GiB), and computed plainly"
    )


def test_what_cannot_be_captured_is_said(site: api.Site, monkeypatch: pytest.MonkeyPatch) -> None:
    here, _, _ = graphed(site)
    fault = RuntimeError("CUDA error: operation not permitted when stream is capturing")
    monkeypatch.setattr(witness_graph, "Captured", broken(fault))
    proof(here, 1)
    with pytest.raises(ResourceError, match=r"not permitted.*; start anew without witness_graph"):
        proof(here, 1)


@pytest.mark.parametrize(("name", "n"), [("winning-32GiB", 141), ("porep-8MiB", 24)])
def test_plans_have_one_where_it_takes_nothing_of_the_room(name: str, n: int) -> None:
    pytest.importorskip("triton")
    witness = sizes_of(name).witness
    plain, found = (plan(sizes_of(name), "triton", n * GB, graph=g) for g in (False, True))
    assert found.witness_graph and not plain.witness_graph
    assert "witness by a graph" in found.verdict and not found.room.in_turn
    assert found.room == plain.room and found.peak <= found.budget
    # what keys of others are planned beside, which have it go
    assert found.resident_bytes == plain.resident_bytes
    # in every stage scratch is there beside the values, and what is staged twice
    more = {k: b - plain.stage_bytes[k] for k, b in found.stage_bytes.items()}
    assert more.pop("witness") == witness.given
    assert set(more.values()) == {witness.given + witness.scratch}
    # which is little, whatever of it torch counts as allocated
    assert found.peak <= 1.05 * plain.peak


@pytest.mark.parametrize("n", [24, 40])
def test_in_turn_or_without_room_for_it_plans_have_none(n: int) -> None:
    pytest.importorskip("triton")
    found = plan(sizes_of("porep-32GiB"), "triton", n * GB, graph=True)
    assert not found.witness_graph and found.room.in_turn == (n == 24)
    assert found == plan(sizes_of("porep-32GiB"), "triton", n * GB)
