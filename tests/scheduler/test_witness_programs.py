"""Programs by graphs: values of their own, one after the other, and nothing left when they go."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest
import torch

from fake_devices import watchdog
from scheduler.graph_stand_ins import CUDA, Replayed, Watched, watched
from torchzk.backends import load_backend
from torchzk.circuits.registry import get_circuit
from torchzk.errors import LayoutError
from torchzk.groth16.r1cs import Assignment
from torchzk.scheduler import witness_graph
from torchzk.scheduler.witness_graph import WitnessGraphs, changed, tensors_of
from witness_samples import witness_of

REAL = witness_graph.Captured


@pytest.fixture(autouse=True)
def graphs(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Replayed] | type[Watched]]:
    with watchdog():
        yield watched(monkeypatch)


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
    for seed in (1, 2, 3) if CUDA else (1, 2):
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


@pytest.mark.parametrize(
    ("free", "share", "reserved", "emptied"),
    [(50, 1.0, 40, 0), (19, 1.0, 40, 1), (50, 0.5, 29, 0), (50, 0.5, 31, 1)],
)
def test_memory_is_given_back_before_a_capture_if_there_is_too_little(
    free: int, share: float, reserved: int, emptied: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = list[str]()
    for name, value in (
        ("mem_get_info", (free, 100)),
        ("get_per_process_memory_fraction", share),
        ("memory_reserved", reserved),
    ):
        monkeypatch.setattr(torch.cuda, name, lambda _, value=value: value)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: said.append("emptied"))
    witness_graph._make_room(torch.device("cuda", 0), 20)
    assert len(said) == emptied


def test_a_capture_is_on_a_stream_of_its_own_and_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The way through CUDA alone, told by names."""
    said = list[str]()

    class Named:
        def __init__(self, name: str) -> None:
            self._name = name

        def __getattr__(self, what: str) -> Callable[..., None]:
            return lambda *a, **k: said.append(f"{self._name} {what}")

    @contextmanager
    def current(stream: Any) -> Iterator[None]:
        said.append("own stream")
        yield
        said.append("compute stream")

    monkeypatch.setattr(witness_graph, "_make_room", lambda device, n: said.append(f"room {n}"))
    monkeypatch.setattr(witness_graph, "_stream", lambda device: Named("own"))
    monkeypatch.setattr(witness_graph, "used_here", lambda *x: said.append(f"used {len(x)}"))
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: Named("compute"))
    monkeypatch.setattr(torch.cuda, "stream", current)
    monkeypatch.setattr(torch.cuda, "CUDAGraph", lambda: Named("graph"))
    monkeypatch.setattr(torch.cuda, "Event", lambda: Named("event"))
    x = torch.ones(8, 4, dtype=torch.int32)

    def launch() -> Assignment:
        said.append("launched")
        return double(x)

    made = REAL(launch, torch.device("cuda", 0), 5)
    captured = ["graph capture_begin", "launched", "graph capture_end"]
    expected = ["room 5", "own wait_stream", "own stream", *captured, "compute stream", "used 2"]
    assert said == expected
    made.replay()
    made.wait()
    assert said[8:] == ["graph replay", "event record", "event synchronize"]
