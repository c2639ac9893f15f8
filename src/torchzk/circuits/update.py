"""EmptySectorUpdate, the circuit of a sector update with data: constraints and public inputs.

A partition proves of some nodes of a sector that the new replica holds the new data on top of the
old replica, and that all three lie under their commitments. The prologue has what the challenges
share, and the digests that they are cut from; every challenge is the same block, which imports
its bits of a digest. Source: spec/post_update.md section 10.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from torchzk.circuits.block_cache import Recall, recorded
from torchzk.circuits.gadgets import num, poseidon
from torchzk.circuits.gadgets.boolean import Bit, Boolean, alloc_bits
from torchzk.circuits.gadgets.insertion import select
from torchzk.circuits.gadgets.multipack import pack_bits, packed
from torchzk.circuits.gadgets.pair_wires import hash_pair
from torchzk.circuits.gadgets.por import por_no_challenge_input
from torchzk.circuits.recorder import ONE, ConstraintSystem, Variable
from torchzk.circuits.update_places import RANDOMNESS, ProloguePlaces
from torchzk.circuits.update_shapes import UpdateShape
from torchzk.groth16.r1cs import Array, Block, R1cs

N_INPUTS = 5
"""ONE, which partition and h, and three commitments."""


def update_r1cs(shape: UpdateShape, recall: Recall = recorded) -> R1cs:
    """The constraint system: the same for every `h` that the circuit allows.

    `recall` says where the two blocks come from; they are recorded by default, which takes some
    seconds where there are 128 apex leaves.
    """
    sizes = (shape.n_partitions, shape.n_challenges, shape.n_apex_leaves)
    parts = (shape.sector.n_nodes, shape.sector.tree_r.arities, *sizes, shape.hs)
    prologue = recall(f"update prologue {parts}", lambda: _prologue(shape))
    block = recall(f"update challenge {parts}", lambda: _challenge(shape))
    return R1cs(prologue, block, shape.n_challenges, _imports(shape))


def public_inputs(
    shape: UpdateShape, partition: int, comm_r_old: int, comm_d_new: int, comm_r_new: int
) -> list[int]:
    """The public inputs of a partition, without ONE, canonical. spec/post_update.md section 9."""
    which = partition + (shape.h_select << shape.partition_bits)
    return [which, comm_r_old, comm_d_new, comm_r_new]


def _prologue(shape: UpdateShape) -> Block:
    """What the challenges share, and the bits of the digests that they are cut from."""
    cs = ConstraintSystem()
    which = cs.alloc()
    num.inputize(cs, which)
    partition = _bits_of(cs, which, shape.partition_bits + len(shape.hs))[: shape.partition_bits]
    number = pack_bits(cs, partition)
    comm_r_old, comm_d_new, comm_r_new = (_commitment(cs) for _ in range(3))
    _randomness(cs, comm_d_new, comm_r_old)
    comm_c, root_r_old, root_r_new = cs.alloc_many(3)
    apex_leaves = cs.alloc_many(shape.n_apex_leaves)
    path = [[sibling] for sibling in cs.alloc_many(shape.partition_bits)]
    for root, comm_r in ((root_r_old, comm_r_old), (root_r_new, comm_r_new)):
        num.enforce_equal(cs, poseidon.merkle(cs, [comm_c, root]), comm_r)
    row = apex_leaves
    while len(row) > 1:
        row = [hash_pair(cs, row[i : i + 2]) for i in range(0, len(row), 2)]
    por_no_challenge_input(cs, row[0], partition, path, comm_d_new, hash_pair)
    for j in range(shape.n_digests):
        index = cs.alloc()
        cs.enforce({number: shape.n_digests, ONE: j}, {ONE: 1}, {index: 1})
        _bits_of(cs, _randomness(cs, comm_r_new, index), num.N_BITS)
    return cs.block()


def _commitment(cs: ConstraintSystem) -> Variable:
    v = cs.alloc()
    num.inputize(cs, v)
    return v


def _bits_of(cs: ConstraintSystem, v: Variable, n: int) -> list[Boolean]:
    """`n` bits whose sum is v; unlike in `num.to_bits` the sum stands in A."""
    bits = alloc_bits(cs, n)
    cs.enforce(packed(bits), {ONE: 1}, {v: 1})
    return bits


def _randomness(cs: ConstraintSystem, a: Variable, b: Variable) -> Variable:
    return poseidon.poseidon(cs, [a, b], RANDOMNESS)


def _imports(shape: UpdateShape) -> Array:
    """The challenge bits of each copy: aux of the prologue, `[challenges, challenge_bits]`."""
    places = ProloguePlaces.of(shape)
    first = np.array([places.digest_bit(j) for j in range(shape.n_digests)], dtype=np.int64)
    digest, place = np.divmod(np.arange(shape.n_challenges), shape.challenges_per_digest)
    starts = first[digest] + place * shape.challenge_bits
    return np.asarray(starts[:, None] + np.arange(shape.challenge_bits), dtype=np.int64)


def _challenge(shape: UpdateShape) -> Block:
    """One challenge; its own bits are imported."""
    shared = ProloguePlaces.of(shape)
    cs = ConstraintSystem(N_INPUTS, shared.n_aux, shape.challenge_bits)
    own_bits: list[Boolean] = [Bit(shared.n_aux + i) for i in range(shape.challenge_bits)]
    bits = [*own_bits, *(Bit(v) for v in shared.partition)]
    h_select = [Bit(v) for v in shared.h_select]
    rho = _randomness(cs, shared.phi, _high_bits(cs, shape.hs, bits, h_select))
    leaf_r_old, leaf_d_new = cs.alloc_many(2)
    added, leaf_r_new = num.mul(cs, leaf_d_new, rho), cs.alloc()
    cs.enforce({leaf_r_old: 1, added: 1}, {ONE: 1}, {leaf_r_new: 1})
    arities = shape.sector.tree_r.arities
    for leaf, root in ((leaf_r_old, shared.root_r_old), (leaf_r_new, shared.root_r_new)):
        path = [cs.alloc_many(arity - 1) for arity in arities]
        por_no_challenge_input(cs, leaf, bits, path, root, poseidon.merkle)
    low, high = own_bits[: shape.tree_d_levels], own_bits[shape.tree_d_levels :]
    apex_leaf = select(cs, shared.apex_leaves, high)
    path = [[sibling] for sibling in cs.alloc_many(shape.tree_d_levels)]
    por_no_challenge_input(cs, leaf_d_new, low, path, apex_leaf, hash_pair)
    return cs.block()


def _high_bits(
    cs: ConstraintSystem,
    hs: Sequence[int],
    bits: Sequence[Boolean],
    h_select: Sequence[Boolean],
) -> Variable:
    """The number that the h high bits of a node's index are, for the h that is selected."""
    chosen = []
    for h, selected in zip(hs, h_select, strict=True):
        high = pack_bits(cs, bits[len(bits) - h :])
        chosen.append(cs.alloc())
        cs.enforce({high: 1}, packed([selected]), {chosen[-1]: 1})
    out = cs.alloc()
    cs.enforce(dict.fromkeys(chosen, 1), {ONE: 1}, {out: 1})
    return out
