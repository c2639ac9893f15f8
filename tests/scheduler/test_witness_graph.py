"""Witnesses by graphs: equal bytes, values of their own, and nothing left when they must go.

Where there is no GPU a stand-in does what a graph does: the launches again, with what lies at the
addresses of the first time.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch

from circuit_samples import NAMES, sizes_of
from fake_devices import watchdog
from scheduler.small_proofs import ProvableCircuit, SmallJob, on, small_site
from torchzk import api
from torchzk.backends import Backend, load_backend
from torchzk.circuits.post_shapes import post_shape
from torchzk.circuits.registry import get_circuit
from torchzk.config import CircuitConfig, Config
from torchzk.device_cache import kept_by_device
from torchzk.errors import CancelledError, ConfigError, LayoutError, ResourceError, UnsatisfiedError
from torchzk.groth16.prover import Randomisers, prove
from torchzk.groth16.r1cs import Assignment
from torchzk.params.fields import FR
from torchzk.scheduler import witness_graph
from torchzk.scheduler.plan import plan
from torchzk.scheduler.proof_service import ProofService
from torchzk.scheduler.proof_work import ProofPartition
from torchzk.scheduler.session import Session
from torchzk.scheduler.witness_graph import WitnessGraphs, changed, tensors_of
from torchzk.timeline import Timeline
from witness_samples import witness_of

Z = Randomisers(5, 6)
GB = 10**9
SEEDS = (1, 2, 3)
CUDA = torch.cuda.is_available()


class Replayed:
    """Stands in for `Captured`: a replay runs the same program on the same inputs."""

    made: list[weakref.ref[Replayed]] = []
    fault: Exception | None = None

    def __init__(
        self, launch: Callable[[], Assignment], device: torch.device, n_bytes: int
    ) -> None:
        if self.fault is not None:
            raise self.fault
        self._launch, self.values, self.replays = launch, launch(), 0
        for x in tensors_of(self.values):
            # a capture computes nothing
            x.fill_(-1)
        self.made.append(weakref.ref(self))

    def replay(self) -> None:
        self.replays += 1
        for x, new in zip(tensors_of(self.values), tensors_of(self._launch()), strict=True):
            x.copy_(new)

    def wait(self) -> None:
        """What was launched is done."""


class Watched(witness_graph.Captured):
    """The real one, counted likewise."""

    made: list[weakref.ref[Watched]] = []

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.replays = 0
        self.made.append(weakref.ref(self))

    def replay(self) -> None:
        self.replays += 1
        super().replay()


class Graphed(ProvableCircuit):
    """The small circuit, with a constant that is kept by device, and how often it is launched."""

    def __init__(self) -> None:
        super().__init__(post_shape("window", 2048))
        self.launched = 0

    def assignment(self, backend: Backend, witness: Any) -> Assignment:
        self.launched += 1
        zeros = _zeros(witness.aux.shape[1], witness.aux.device)
        return Assignment(witness.inputs.clone(), backend.add(witness.aux, zeros, FR))


@kept_by_device(1)
def _zeros(n: int, device: torch.device) -> torch.Tensor:
    return torch.zeros(8, n, dtype=torch.int32).to(device)


@pytest.fixture(autouse=True)
def graphs(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Replayed] | type[Watched]]:
    """Whoever asks for a graph has one, and all that were made are seen."""
    stand_in = Watched if CUDA else Replayed
    monkeypatch.setattr(stand_in, "made", [])
    monkeypatch.setattr(witness_graph, "Captured", stand_in)
    if not CUDA:
        asked = property(lambda self: self.config.witness_graph)
        monkeypatch.setattr(Session, "has_graph", asked)
    with watchdog():
        yield stand_in


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, device: torch.device) -> Iterator[api.Site]:
    made = small_site(tmp_path_factory.mktemp("keys"), device)
    with made.keys:
        yield made


@pytest.fixture(scope="module")
def expected(site: api.Site) -> bytes:
    """The proofs of `SEEDS`, by the prover alone."""
    session, circuit, proofs = site.session, site.session.circuit, b""
    for k in range(len(SEEDS)):
        given = circuit.witness(session.backend, session.device, SmallJob(SEEDS), k)
        assign = partial(circuit.assignment, session.backend, given)
        known = (session.backend, site.keys.proving, session.r1cs, assign, Z, Timeline())
        proofs += prove(*known, circuit=circuit.name).to_bytes()
    return proofs


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

    for _ in range(2):
        stages.clear()
        with pytest.raises(CancelledError):
            # its witness is launched by then
            proof(here, 7, check=check)
        assert proof(here, 3) == expected[384:]
        with pytest.raises(UnsatisfiedError):
            proof(here, 3, bad="row")
        assert proof(here, 1) == expected[:192]
    assert len(graphs.made) == 1


def test_what_caches_forget_the_graph_keeps(site: api.Site, expected: bytes) -> None:
    here, _, _ = graphed(site)
    for k, seed in enumerate(SEEDS):
        assert proof(here, seed) == expected[192 * k : 192 * k + 192]
        _zeros.cache_clear()
        # what was its memory may be anybody's by now
        others = [
            torch.ones(1 << n, dtype=torch.int32, device=here.session.device) for n in range(15)
        ]
        assert len(others) == 15


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
            session._settle(session.plan, 0)
        assert len(residents.graphs) == 0


def test_two_circuits_in_turn(device: torch.device, graphs: type[Replayed]) -> None:
    """Each has its own inputs, values and constants."""
    kept, warnings = WitnessGraphs(), list[str]()
    for turn in range(4):
        for name, factor in (("a", 1), ("b", 3)):

            def program(given: torch.Tensor, factor: int = factor) -> Assignment:
                return Assignment(given * factor, given + factor)

            given = torch.full((8, 4), 10 + turn, dtype=torch.int32, device=device)
            with kept.lent(device, name, program, 1, warnings.append) as assign:
                values = assign(given)
                assert set(values.inputs.flatten().tolist()) == {(10 + turn) * factor}
                assert set(values.aux.flatten().tolist()) == {10 + turn + factor}
    assert len(graphs.made) == len(kept) == 2 and not warnings
    one, two = (made() for made in graphs.made)
    assert one is not None and two is not None and one.replays == two.replays == 3
    del one, two, values
    kept.drop(device, "a")
    assert [made() is None for made in graphs.made] == [True, False]
    kept.drop(torch.device("cuda", 7))
    assert len(kept) == 1
    kept.drop(device)
    assert graphs.made[1]() is None and len(kept) == 0


def double(given: torch.Tensor) -> Assignment:
    if given.shape[1] != 4:
        raise LayoutError("of another shape")
    return Assignment(given.clone(), given * 2)


def test_nobody_has_it_while_another_does(device: torch.device) -> None:
    kept, order = WitnessGraphs(), list[str]()
    given = torch.ones(8, 4, dtype=torch.int32, device=device)

    def other() -> None:
        with kept.lent(device, "a", double, 1, order.append) as assign:
            order.append("the other begins")
            assign(given * 5)

    thread = threading.Thread(target=other)
    for _ in range(2):
        with kept.lent(device, "a", double, 1, order.append) as assign:
            assign(given)
    with kept.lent(device, "a", double, 1, order.append) as assign:
        values = assign(given)
        thread.start()
        assert set(values.aux.flatten().tolist()) == {2}
        order.append("this one ends")
        lent = assign
    with pytest.raises(IndexError):
        # whoever still has it has nothing of the graph
        lent(given)
    thread.join()
    assert order == ["this one ends", "the other begins"]


def test_inputs_of_another_shape_are_the_programs_to_refuse(device: torch.device) -> None:
    kept = WitnessGraphs()
    for n in (4, 4, 4):
        with kept.lent(device, "a", double, 1, print) as assign:
            assign(torch.ones(8, n, dtype=torch.int32, device=device))
            with pytest.raises(LayoutError, match="of another shape"):
                assign(torch.ones(8, 1, dtype=torch.int32, device=device))


def test_a_first_run_that_failed_is_no_first_run(
    device: torch.device, graphs: type[Replayed]
) -> None:
    """Kernels may not be there that a capture cannot load."""
    kept, faults = WitnessGraphs(), [MemoryError()]

    def program(given: torch.Tensor) -> Assignment:
        if faults:
            raise faults.pop()
        return double(given)

    given = torch.ones(8, 4, dtype=torch.int32, device=device)
    with kept.lent(device, "a", program, 1, print) as assign:
        with pytest.raises(MemoryError):
            assign(given)
        assign(given)
        assert graphs.made == []
        assign(given)
        assert len(graphs.made) == 1


def test_without_memory_for_it_witnesses_are_computed_plainly(
    site: api.Site, expected: bytes, graphs: type[Replayed], monkeypatch: pytest.MonkeyPatch
) -> None:
    here, circuit, warnings = graphed(site)
    fault = torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 4.00 GiB. GPU 0 has")
    monkeypatch.setattr(witness_graph, "Captured", type("Broken", (Replayed,), {"fault": fault}))
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
    monkeypatch.setattr(witness_graph, "Captured", type("Broken", (Replayed,), {"fault": fault}))
    proof(here, 1)
    with pytest.raises(ResourceError, match=r"not permitted.*; start anew without witness_graph"):
        proof(here, 1)


def random_of(given: Any, seed: int, device: torch.device) -> Any:
    """Values for what has none: limbs below the modulus, places that every arity has."""
    generator = torch.Generator().manual_seed(seed)

    def drawn(x: torch.Tensor) -> torch.Tensor:
        most = 1 << 30 if x.dtype == torch.int32 else 2
        values = torch.randint(most, tuple(x.shape), dtype=x.dtype, generator=generator)
        return values.to(device)

    return changed(given, drawn)


@pytest.mark.parametrize("kind", ["winning", *(["window", "porep", "update"] if CUDA else [])])
def test_every_circuits_witness_is_the_same(kind: str, device: torch.device) -> None:
    """On a GPU this captures each kind's program as it is; without one, winning's stands for it."""
    circuit, backend = get_circuit(kind, 2048), load_backend("triton" if CUDA else "torch")
    program, kept = partial(circuit.assignment, backend), WitnessGraphs()
    for seed in (1, 2, 3):
        given = random_of(witness_of(circuit), seed, device)
        plain = program(given)
        with kept.lent(device, circuit.name, program, 1 << 30, print) as assign:
            values = assign(given)
            assert torch.equal(values.inputs, plain.inputs)
            assert torch.equal(values.aux, plain.aux)
    kept.drop(device)


def test_numbers_that_a_graph_would_not_know_of_are_refused() -> None:
    x = torch.ones(3)
    assert [y.tolist() for y in tensors_of((x, [x + 1], (Assignment(x, x + 2),)))] == [
        [1.0] * 3,
        [2.0] * 3,
        [1.0] * 3,
        [3.0] * 3,
    ]
    with pytest.raises(LayoutError, match="from tensors alone, got int"):
        tensors_of((x, 3))


def test_plans_have_one_where_it_takes_nothing_of_the_room() -> None:
    pytest.importorskip("triton")
    having = set()
    for name in (name for name in NAMES if name.endswith("32GiB")):
        for n in (16, 48, 80, 141):
            sizes = sizes_of(name)
            try:
                plain = plan(sizes, "triton", n * GB)
            except ResourceError:
                continue
            found = plan(sizes, "triton", n * GB, graph=True)
            if not found.witness_graph:
                assert found == plain
                continue
            having.add((name, n))
            assert not found.room.in_turn and found.room == plain.room
            assert found.peak <= found.budget and found.resident_bytes == plain.resident_bytes
            # in every stage scratch is there beside the values, and what is staged twice
            more = {k: b - plain.stage_bytes[k] for k, b in found.stage_bytes.items()}
            witness = sizes.witness
            assert more.pop("witness") == witness.given
            assert set(more.values()) == {witness.given + witness.scratch}
            # which is little, whatever of it torch counts as allocated
            assert found.peak <= 1.1 * plain.peak
    assert {("porep-32GiB", 141), ("window-32GiB", 141), ("update-32GiB", 80)} <= having
    assert ("porep-32GiB", 80) not in having
    sizes = sizes_of("porep-32GiB")
    # all at once, and nothing left
    tight = plan(sizes, "triton", 40 * GB, graph=True)
    assert not tight.witness_graph and not tight.room.in_turn and "graph" not in tight.verdict
    assert "witness by a graph" in plan(sizes, "triton", 141 * GB, graph=True).verdict


def test_an_early_witness_has_none() -> None:
    circuit = CircuitConfig(kind="porep", sector_size=2048)
    with pytest.raises(ConfigError, match="choose one of them"):
        Config(circuit=circuit, keys="dev", early_witness=True, witness_graph=True)
