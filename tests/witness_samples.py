"""What any circuit's witness is made from, without values: on torch's device without memory."""

from __future__ import annotations

from typing import Any

import torch

from torchzk.circuits.circuit import AnyCircuit
from torchzk.circuits.porep_circuit import PorepCircuit
from torchzk.circuits.porep_shapes import PARENTS
from torchzk.circuits.porep_witness import PATHS, MerklePaths, PorepWitness
from torchzk.circuits.post_circuit import PostCircuit
from torchzk.circuits.post_slots import PostSlots
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
