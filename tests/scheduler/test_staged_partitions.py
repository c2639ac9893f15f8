"""What a partition has between its staging and its kernels: on which stream, how much, how long."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
import torch

from circuit_samples import sizes_of
from scheduler.small_proofs import ProvableCircuit, SmallJob, proofs_alone, small_site
from torchzk import api
from torchzk.backends import Backend
from torchzk.circuits.post_shapes import post_shape
from torchzk.errors import CancelledError, UnsatisfiedError
from torchzk.groth16.prover import Randomisers
from torchzk.groth16.r1cs import Assignment
from torchzk.scheduler import proof_work
from torchzk.scheduler.memory_budget import MemoryBudget
from torchzk.scheduler.plan import plan
from torchzk.scheduler.proof_work import ProofPartition
from torchzk.scheduler.residents import Share, partition_room
from torchzk.scheduler.worker_device import compute_stream
from torchzk.timeline import Timeline

Z = Randomisers(5, 6)
GB = 10**9


class Watched(ProvableCircuit):
    """The small circuit, and what was made of a partition: its inputs, then its values."""

    def __init__(self) -> None:
        super().__init__(post_shape("window", 2048))
        self.made: list[tuple[str, weakref.ref[torch.Tensor], bool]] = []
        self.under_stream = False

    def witness(self, backend: Backend, device: torch.device, job: Any, partition: int) -> Any:
        made = super().witness(backend, device, job, partition)
        self.made.append(("staged", weakref.ref(made.aux), self.under_stream))
        return made

    def assignment(self, backend: Backend, witness: Any) -> Assignment:
        made = super().assignment(backend, witness)
        self.made.append(("computed", weakref.ref(made.aux), self.under_stream))
        return made


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory, device: torch.device) -> Iterator[api.Site]:
    made = small_site(tmp_path_factory.mktemp("keys"), device)
    with made.keys:
        yield made


@pytest.fixture
def watched(small: api.Site) -> tuple[api.Site, Watched]:
    """The site with a circuit of its own."""
    circuit = Watched()
    # every witness is launched, none replayed
    config = replace(small.session.config, witness_graph=False)
    session = replace(small.session, circuit=circuit, config=config)
    vars(session).update(r1cs=small.session.r1cs, sizes=small.session.sizes)
    return replace(small, session=session), circuit


def test_all_but_the_staging_is_launched_on_the_compute_stream(
    small: api.Site, watched: tuple[api.Site, Watched], monkeypatch: pytest.MonkeyPatch
) -> None:
    """There what is freed is given away in the order of the work, whoever launched it."""
    site, circuit = watched
    real, asked = proof_work._current, list[Any]()

    @contextmanager
    def current(stream: Any) -> Iterator[None]:
        asked.append(stream)
        with real(stream):
            circuit.under_stream = True
            yield
            circuit.under_stream = False

    monkeypatch.setattr(proof_work, "_current", current)
    part = ProofPartition(site, SmallJob((1,)), 0, Z, Timeline())
    part.stage()
    assert part.planned_bytes == site.staged_bytes == site.session.sizes.witness.given
    part.compute(lambda: None)
    part.drop()
    assert part.finish() == proofs_alone(small, SmallJob((1,)), Z)
    assert [(what, under) for what, _, under in circuit.made] == [
        ("staged", False),
        ("computed", True),
    ]
    assert asked == [compute_stream(site.session.device)]


@pytest.mark.parametrize("how", ["never computed", "stopped", "wrong"])
def test_nothing_is_left_however_it_ends(watched: tuple[api.Site, Watched], how: str) -> None:
    site, circuit = watched
    part = ProofPartition(site, SmallJob((1,), "row" if how == "wrong" else ""), 0, Z, Timeline())
    part.stage()
    assert [there() is not None for _, there, _ in circuit.made] == [True]

    def check() -> None:
        if how == "stopped" and len(circuit.made) == 2:
            raise CancelledError("no longer wanted")

    if how != "never computed":
        with pytest.raises(CancelledError if how == "stopped" else UnsatisfiedError):
            part.compute(check)
        assert len(circuit.made) == 2
    part.drop()
    assert not site.session.residents._at_work.get(site.session.device)
    assert all(there() is None for _, there, _ in circuit.made)


@pytest.mark.parametrize("graph", [False, True])
@pytest.mark.parametrize(
    ("name", "n"), [("porep-32GiB", 96), ("porep-32GiB", 141), ("update-32GiB", 48)]
)
def test_what_is_staged_beside_a_peak_fits_the_budget(name: str, n: int, graph: bool) -> None:
    pytest.importorskip("triton")
    staged = sizes_of(name).witness.given
    found = plan(sizes_of(name), "triton", n * GB, graph=graph)
    room = partition_room("cuda:0", [Share(found, 0, staged)])
    budget = MemoryBudget("cuda:0", room)
    promises = [budget.ask(str(k), staged) for k in range(99)]
    others = sum(promise.ready() for promise in promises) - 1
    # the one that computes is counted in the peak, and its promise as well
    assert others == min((found.budget - found.peak) // staged, 98)
    assert found.peak + others * staged <= found.budget
