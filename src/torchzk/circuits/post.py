"""FallbackPoSt, the circuit of winning and window PoSt. Source: spec/post_update.md section 5.

A slot proves, of one sector, that comm_r is the hash of comm_c and comm_r_last and that some
leaves lie under comm_r_last. Slots share no variable, so the circuit is one slot repeated.
"""

from __future__ import annotations

from functools import lru_cache

import torch

from torchzk.backends import Backend
from torchzk.circuits.block_cache import Recall, recorded
from torchzk.circuits.circuit import WitnessBytes
from torchzk.circuits.gadgets import poseidon
from torchzk.circuits.gadgets.num import enforce_equal, inputize, integer_wires, one
from torchzk.circuits.gadgets.por import (
    leaf_index,
    level_wires,
    por,
    por_wires,
    por_wires_bytes,
)
from torchzk.circuits.post_shapes import PostShape
from torchzk.circuits.post_slots import PostSlots
from torchzk.circuits.recorder import ConstraintSystem
from torchzk.errors import LayoutError
from torchzk.groth16.r1cs import Assignment, Block, R1cs
from torchzk.params.fields import FR
from torchzk.params.poseidon import Poseidon


def post_r1cs(shape: PostShape, recall: Recall = recorded) -> R1cs:
    """The constraint system: nothing before the slots, then the slots.

    `recall` says where the block of a slot comes from; it is recorded by default.
    """
    parts = (shape.n_challenges, shape.sector.tree_r.arities)
    slot = recall(f"post slot {parts}", lambda: _slot(*parts))
    return R1cs(ConstraintSystem().block(), slot, shape.n_slots)


def n_public_inputs(shape: PostShape) -> int:
    """ONE, and for each slot comm_r and the numbers of the challenged leaves."""
    return 1 + shape.n_slots * (1 + shape.n_challenges)


@lru_cache(maxsize=32)
def _slot(challenges: int, arities: tuple[int, ...]) -> Block:
    cs = ConstraintSystem()
    comm_r_last, comm_c, comm_r = cs.alloc_many(3)
    inputize(cs, comm_r)
    enforce_equal(cs, comm_r, poseidon.merkle(cs, [comm_c, comm_r_last]))
    for _ in range(challenges):
        por(cs, arities, poseidon.merkle, root=comm_r_last)
    return cs.block()


def slot_aux(shape: PostShape) -> int:
    """Aux variables of one slot, few of which are bits."""
    n_path = 1 + sum(level_wires(arity) for arity in shape.sector.tree_r.arities)
    return 3 + Poseidon.merkle(2).n_wires + shape.n_challenges * n_path


def post_witness_bytes(shape: PostShape) -> WitnessBytes:
    """See `Circuit.witness_bytes`; the levels of the paths are the same on any device."""
    arities, n_paths = shape.sector.tree_r.arities, shape.n_slots * shape.n_challenges
    own = 1 + sum(arity - 1 for arity in arities)
    # indices have 8 bytes a level
    given = n_paths * (FR.n_bytes * own + 8 * len(arities)) + 3 * FR.n_bytes * shape.n_slots
    head = 3 + 2 * Poseidon.merkle(2).n_wires
    scratch = por_wires_bytes(arities, n_paths) + FR.n_bytes * shape.n_slots * head
    return WitnessBytes(given, scratch)


def assign(backend: Backend, shape: PostShape, slots: PostSlots) -> Assignment:
    """The value of every variable.

    All slots and challenges are computed at once; only the levels of the paths follow each other.
    Whether the values satisfy the circuit is not looked at.

    Args:
        backend: The operations to use.
        shape: The circuit.
        slots: The vanilla proofs of a partition.

    Returns:
        An assignment on the device of `slots`.

    Raises:
        LayoutError: `slots` is of another shape.
    """
    got = (slots.n_slots, slots.n_challenges, slots.arities)
    expected = (shape.n_slots, shape.n_challenges, shape.sector.tree_r.arities)
    if got != expected:
        raise LayoutError(f"(slots, challenges, arities) must be {expected}, got {got}")
    return Assignment(inputs=_inputs(backend, slots), aux=_aux(backend, slots))


def _inputs(backend: Backend, slots: PostSlots) -> torch.Tensor:
    leaves = integer_wires(backend, leaf_index(slots.indices, slots.arities))
    own = torch.cat((slots.comm_r.unsqueeze(2), leaves), dim=2)
    return torch.cat((one(own.device), own.flatten(1)), dim=1)


def _aux(backend: Backend, slots: PostSlots) -> torch.Tensor:
    s, c = slots.n_slots, slots.n_challenges
    roots = torch.stack((slots.comm_r_last, slots.comm_c, slots.comm_r), dim=1)
    children = torch.stack((slots.comm_c, slots.comm_r_last), dim=1)
    head = torch.cat((roots, poseidon.merkle_wires(backend, children)), dim=1)
    n_path = 1 + sum(level_wires(arity) for arity in slots.arities)
    n_slot = head.shape[1] + c * n_path
    aux = torch.empty(8, s * n_slot, dtype=torch.int32, device=head.device)
    by_slot = aux.view(8, s, n_slot)
    by_slot[:, :, : head.shape[1]] = head.transpose(1, 2)
    paths = by_slot[:, :, head.shape[1] :].view(8, s, c, n_path)
    paths[..., 0] = slots.leaves
    place = 1
    for wires in por_wires(
        backend, slots.leaves, slots.indices, slots.siblings, poseidon.merkle_wires
    ):
        paths[..., place : place + wires.shape[1]] = wires.movedim(1, -1)
        place += wires.shape[1]
    return aux
