"""What a witness is said to take, against what its tensor program allocates at full size.

The program runs on torch's device without memory, whose tensors have shapes and no values, with
operations that give results of the right shape: so 32 GiB sectors take no time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pytest
import torch

from capturable import CannotBeCapturedError, capturable
from memory_tracker import watch_memory
from torchzk.backends import Backend
from torchzk.circuits.circuit import AnyCircuit
from torchzk.circuits.porep_circuit import PorepCircuit
from torchzk.circuits.porep_shapes import PARENTS
from torchzk.circuits.porep_witness import PATHS, MerklePaths, PorepWitness
from torchzk.circuits.post_circuit import PostCircuit
from torchzk.circuits.post_slots import PostSlots
from torchzk.circuits.registry import get_circuit
from torchzk.circuits.update_circuit import UpdateCircuit
from torchzk.circuits.update_witness import UpdateWitness
from torchzk.params.poseidon import Poseidon
from torchzk.params.sha256_steps import N_STEPS


class Shapes:
    """Operations that give tensors of the right shape."""

    def _new(self, x: torch.Tensor, *_: Any) -> torch.Tensor:
        return torch.empty_like(x, memory_format=torch.contiguous_format)

    add = mont_mul = to_mont = from_mont = _new

    def poseidon_wires(self, x: torch.Tensor, instance: Poseidon) -> torch.Tensor:
        return x.new_empty(8, instance.n_wires, *x.shape[2:])

    def sha256_steps(self, blocks: torch.Tensor, states: torch.Tensor) -> torch.Tensor:
        return blocks.new_empty(N_STEPS, blocks.shape[1], dtype=torch.int64)

    def sha256(self, messages: torch.Tensor) -> torch.Tensor:
        return messages.new_empty(messages.shape[0], 32)


def elements(*shape: int) -> torch.Tensor:
    return torch.empty(8, *shape, dtype=torch.int32, device="meta")


def integers(*shape: int) -> torch.Tensor:
    return torch.empty(*shape, dtype=torch.int64, device="meta")


def siblings(arities: tuple[int, ...], *batch: int) -> tuple[torch.Tensor, ...]:
    return tuple(elements(*batch, arity - 1) for arity in arities)


def post_witness(circuit: PostCircuit) -> PostSlots:
    s, c = circuit.shape.n_slots, circuit.shape.n_challenges
    arities = circuit.sector.tree_r.arities
    return PostSlots(
        comm_r=elements(s),
        comm_c=elements(s),
        comm_r_last=elements(s),
        leaves=elements(s, c),
        indices=integers(s, c, len(arities)),
        siblings=siblings(arities, s, c),
    )


def porep_witness(circuit: PorepCircuit) -> PorepWitness:
    shape = circuit.shape
    c, levels = shape.n_challenges, shape.data_levels
    return PorepWitness(
        replica_id=elements(),
        comm_d=elements(),
        comm_r=elements(),
        comm_c=elements(),
        comm_r_last=elements(),
        challenges=integers(c),
        data_leaves=elements(c),
        data_paths=MerklePaths(integers(c, levels), siblings((2,) * levels, c)),
        parent_columns=elements(c, PARENTS, shape.layers),
        paths=MerklePaths(
            integers(c, PATHS, len(shape.arities)), siblings(shape.arities, c, PATHS)
        ),
    )


def update_witness(circuit: UpdateCircuit) -> UpdateWitness:
    shape = circuit.shape
    c, arities = shape.n_challenges, circuit.sector.tree_r.arities
    names = ("comm_r_old", "comm_d_new", "comm_r_new", "comm_c", "root_r_old", "root_r_new")
    return UpdateWitness(
        partition=integers(1),
        **{name: elements(1) for name in names},
        apex_leaves=elements(shape.n_apex_leaves),
        partition_path=elements(shape.partition_bits),
        leaves_r_old=elements(c),
        leaves_d_new=elements(c),
        siblings_r_old=siblings(arities, c),
        siblings_r_new=siblings(arities, c),
        siblings_d_new=elements(c, shape.tree_d_levels),
    )


def witness_of(circuit: AnyCircuit) -> PostSlots | PorepWitness | UpdateWitness:
    if isinstance(circuit, PostCircuit):
        return post_witness(circuit)
    if isinstance(circuit, PorepCircuit):
        return porep_witness(circuit)
    assert isinstance(circuit, UpdateCircuit)
    return update_witness(circuit)


@pytest.mark.parametrize("kind", ["winning", "window", "porep", "update"])
@pytest.mark.parametrize("sector_size", [2 << 10, 8 << 20, 32 << 30, 64 << 30])
def test_a_witness_takes_what_it_is_said_to(kind: str, sector_size: int) -> None:
    circuit = get_circuit(kind, sector_size)
    said = circuit.witness_bytes(on_cpu=False)
    with watch_memory() as given:
        witness = witness_of(circuit)
    with watch_memory() as made:
        values = circuit.assignment(cast(Backend, Shapes()), witness)
    result = 4 * (values.inputs.numel() + values.aux.numel())
    assert made.alive >= result > 0
    assert given.alive <= said.given
    # tables that are kept were there before if another test ran this circuit
    assert made.peak <= result + said.scratch + (1 << 17)
    assert result + said.scratch <= 1.06 * made.peak + (1 << 20)
    # again, with all constants there
    del values
    with capturable():
        circuit.assignment(cast(Backend, Shapes()), witness)


@pytest.mark.parametrize(
    "done",
    [
        lambda x: x.sum().item(),
        lambda x: bool((x == 0).all()),
        lambda x: int(x[0]),
        lambda x: x.tolist(),
        lambda x: x.cpu(),
        lambda x: x.nonzero(),
        lambda x: x[x > 0],
        lambda x: torch.equal(x, x),
        lambda x: x[[0, 1]],
        lambda x: x.__setitem__(np.array([0, 1]), 0),
        lambda x: torch.tensor([1, 2], device=x.device),
        lambda x: x.new_tensor([1, 2]),
        lambda x: torch.as_tensor(np.zeros(4), device=x.device),
        lambda x: torch.from_numpy(np.zeros(4)).to(x.device),
        lambda x: torch.arange(4).to(x.device),
        lambda x: x.copy_(torch.arange(4)),
        lambda x: x + torch.arange(4),
        lambda x: torch.repeat_interleave(x, x),
    ],
)
def test_what_no_graph_can_capture_is_refused(done: Callable[[torch.Tensor], object]) -> None:
    with pytest.raises(CannotBeCapturedError), capturable():
        done(integers(4))


def test_what_a_graph_captures_is_not_refused() -> None:
    x = integers(4, 2)
    with capturable():
        x[:, 1] &= 3
        x[0, ...] = 1
        torch.where(x > 0, x, 0).index_select(0, torch.arange(2, device=x.device))
        x[torch.arange(2, device=x.device)].to(torch.int32).clone()


def test_a_cpu_works_on_smaller_pieces() -> None:
    circuit = get_circuit("update", 32 << 30)
    on_cpu, on_gpu = (circuit.witness_bytes(on_cpu=x).scratch for x in (True, False))
    assert 3 * on_cpu < on_gpu
