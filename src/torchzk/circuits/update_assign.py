"""The witness of the EmptySectorUpdate circuit: every variable's value, as a tensor program.

What depends on each other is hashed first: digests, the levels of paths, the rows of the apex
tree. All else is computed for all challenges at once and written where it belongs. Values come in
the order in which `update` allocates their variables. Source: spec/post_update.md section 10.
"""

from __future__ import annotations

from itertools import accumulate

import torch

from torchzk.backends import Backend
from torchzk.circuits.circuit import WitnessBytes
from torchzk.circuits.gadgets import poseidon
from torchzk.circuits.gadgets.data_tree import path_pairs, tree_pairs
from torchzk.circuits.gadgets.insertion import insert_wires, select_wires
from torchzk.circuits.gadgets.num import (
    N_BITS,
    bit_wires,
    integer_wires,
    one,
    to_bits_wires,
)
from torchzk.circuits.gadgets.pair_wires import (
    n_pair_wires,
    pair_wires_bytes,
    write_pair_wires,
)
from torchzk.circuits.gadgets.por import index_bits, por_wires_bytes
from torchzk.circuits.update_places import (
    DIGEST_WIRES,
    PAIR,
    RANDOMNESS,
    ProloguePlaces,
    challenge_aux,
    path_d_level,
    replica_path,
)
from torchzk.circuits.update_shapes import UpdateShape
from torchzk.circuits.update_witness import UpdateWitness
from torchzk.device_cache import kept_by_device
from torchzk.errors import LayoutError
from torchzk.groth16.r1cs import Assignment
from torchzk.params.fields import FR


def update_numbers(shape: UpdateShape) -> tuple[int, int]:
    """See `Circuit.most_numbers`: of a hash in TreeD all but its node are bits."""
    bits = n_pair_wires() - 1
    in_prologue = (shape.n_apex_leaves - 1 + shape.partition_bits) * bits
    head = ProloguePlaces.of(shape).n_aux - in_prologue - shape.n_digests * N_BITS
    return head, challenge_aux(shape) - shape.tree_d_levels * bits


def update_witness_bytes(shape: UpdateShape, *, on_cpu: bool) -> WitnessBytes:
    """See `Circuit.witness_bytes`."""
    c, arities = shape.n_challenges, shape.sector.tree_r.arities
    siblings = 3 * sum(arity - 1 for arity in arities) + shape.node_bits
    # what is indexed of the planes is copied
    given = 2 * FR.n_bytes * (c * (siblings + 3) + shape.n_apex_leaves)
    pairs = max(
        pair_wires_bytes(shape.n_apex_leaves - 1, on_cpu=on_cpu),
        pair_wires_bytes(c, shape.tree_d_levels, on_cpu=on_cpu),
    )
    # both trees' siblings twice, and the pairs of TreeD twice
    nodes = 2 * c * (2 * sum(arity - 1 for arity in arities) + 2 * PAIR * shape.tree_d_levels)
    paths = por_wires_bytes(arities, 2 * c)
    digests = FR.n_bytes * shape.n_digests * 2 * DIGEST_WIRES
    return WitnessBytes(given, digests + FR.n_bytes * nodes + max(pairs, paths))


def assign(backend: Backend, shape: UpdateShape, witness: UpdateWitness) -> Assignment:
    """The value of every variable of one partition.

    Whether the values satisfy the circuit is not looked at.

    Args:
        backend: The operations to use.
        shape: The circuit, with the `h` to select.
        witness: The vanilla proof of a partition.

    Returns:
        An assignment on the device of `witness`.

    Raises:
        LayoutError: `witness` is of another shape.
    """
    _check(shape, witness)
    device, c = witness.comm_c.device, shape.n_challenges
    n_head, n_challenge = ProloguePlaces.of(shape).n_aux, challenge_aux(shape)
    aux = torch.empty(8, n_head + c * n_challenge, dtype=torch.int32, device=device)
    head = _Room(aux[:, :n_head])
    body = _Room(aux[:, n_head:].view(8, c, n_challenge))
    which = _which(backend, shape, witness.partition)
    commitments = torch.cat((witness.comm_r_old, witness.comm_d_new, witness.comm_r_new), dim=1)
    phi, digest_bits = _write_prologue(backend, shape, witness, which, commitments, head)
    _write_challenges(backend, shape, witness, phi, digest_bits, body)
    inputs = torch.cat((one(device), which[:, :1], commitments), dim=1)
    return Assignment(inputs=inputs, aux=aux)


class _Room:
    """Values of variables side by side, `[8, *batch, n]`, to be written from left to right."""

    def __init__(self, values: torch.Tensor) -> None:
        self._values = values
        self._place = 0

    def take(self, n: int) -> torch.Tensor:
        """The next `n` values of each batch, to be written in place."""
        start, self._place = self._place, self._place + n
        return self._values[..., start : self._place]

    def put(self, values: torch.Tensor) -> None:
        """The next values, `[8, n, *batch]`."""
        self.take(values.shape[1]).copy_(values.movedim(1, -1))


def _check(shape: UpdateShape, witness: UpdateWitness) -> None:
    expected = (
        shape.n_challenges,
        shape.sector.tree_r.arities,
        shape.n_apex_leaves,
        shape.partition_bits,
        shape.tree_d_levels,
    )
    got = (
        witness.n_challenges,
        witness.arities,
        witness.apex_leaves.shape[1],
        witness.partition_path.shape[1],
        witness.siblings_d_new.shape[2],
    )
    if got != expected:
        names = "(challenges, arities, apex leaves, partition path, levels of TreeD)"
        raise LayoutError(f"{names} must be {expected}, got {got}")


def _which(backend: Backend, shape: UpdateShape, partition: torch.Tensor) -> torch.Tensor:
    """Which partition and which h: their number, its bits, and the partition's number again."""
    number = partition + (shape.h_select << shape.partition_bits)
    bits = _low_bits(number, shape.partition_bits + len(shape.hs)).flatten().to(torch.int64)
    return integer_wires(backend, torch.cat((number, bits, partition)))


def _low_bits(number: torch.Tensor, n: int) -> torch.Tensor:
    """int64 `[1]` to its low `n` bits, which may be none, bool `[n, 1]`."""
    return (number >> torch.arange(n, device=number.device).unsqueeze(1) & 1).bool()


@kept_by_device(16)
def _challenge_places(shape: UpdateShape, device: torch.device) -> torch.Tensor:
    """int64 `[challenge_bits, c]`: where a challenge's bits are in the flat `[255, digests]`."""
    challenge = torch.arange(shape.n_challenges)
    place = challenge % shape.challenges_per_digest * shape.challenge_bits
    bit = torch.arange(shape.challenge_bits).unsqueeze(1) + place
    return (bit * shape.n_digests + challenge // shape.challenges_per_digest).to(device)


@kept_by_device(16)
def _shifts(shape: UpdateShape, device: torch.device) -> torch.Tensor:
    """int64 `[hs, 1]`: how far a node's number is shifted to leave its h high bits."""
    return torch.tensor([[shape.node_bits - h] for h in shape.hs], device=device)


def _write_prologue(
    backend: Backend,
    shape: UpdateShape,
    witness: UpdateWitness,
    which: torch.Tensor,
    commitments: torch.Tensor,
    room: _Room,
) -> tuple[torch.Tensor, torch.Tensor]:
    """All values of the prologue; returns phi `[8, 1]` and the digests' bits, bool `[255, D]`."""
    room.put(which)
    room.put(commitments)
    phi = _randomness_wires(backend, witness.comm_d_new, witness.comm_r_old)
    room.put(phi.flatten(1))
    roots = torch.cat((witness.root_r_old, witness.root_r_new), dim=1)
    room.put(torch.cat((witness.comm_c, roots, witness.apex_leaves, witness.partition_path), dim=1))
    pairs = torch.stack((witness.comm_c.expand(-1, 2), roots), dim=1)
    room.put(poseidon.merkle_wires(backend, pairs).transpose(1, 2).flatten(1))
    n_pair = n_pair_wires()
    pairs, apex = tree_pairs(backend, witness.apex_leaves)
    n_pairs = pairs.shape[2]
    write_pair_wires(backend, pairs, room.take(n_pairs * n_pair).view(8, n_pairs, n_pair))
    bits = _low_bits(witness.partition, shape.partition_bits)
    _write_path(backend, apex, bits, witness.partition_path.unsqueeze(1), room)
    places = torch.arange(shape.n_digests, device=which.device)
    numbers = integer_wires(backend, witness.partition * shape.n_digests + places)
    digests = _randomness_wires(backend, witness.comm_r_new.expand_as(numbers), numbers)
    digest_bits = to_bits_wires(backend, digests[:, -1])
    wires = torch.cat((numbers.unsqueeze(1), digests, bit_wires(digest_bits)), dim=1)
    room.put(wires.transpose(1, 2).flatten(1))
    return phi[:, -1], digest_bits


def _write_challenges(
    backend: Backend,
    shape: UpdateShape,
    witness: UpdateWitness,
    phi: torch.Tensor,
    digest_bits: torch.Tensor,
    room: _Room,
) -> None:
    device, c = phi.device, shape.n_challenges
    own_bits = digest_bits.flatten()[_challenge_places(shape, device)]
    partition_bits = _low_bits(witness.partition, shape.partition_bits)
    bits = torch.cat((own_bits, partition_bits.expand(-1, c)))
    high = integer_wires(backend, _number(bits) >> _shifts(shape, device))
    selected = shape.hs.index(shape.h)
    chosen = torch.zeros_like(high)
    chosen[:, selected] = high[:, selected]
    room.put(torch.stack((high, chosen), dim=2).flatten(1, 2))
    rho = _randomness_wires(backend, phi.expand(-1, c), high[:, selected])
    room.put(torch.cat((high[:, selected : selected + 1], rho), dim=1))
    leaf_r_old, leaf_d_new = witness.leaves_r_old, witness.leaves_d_new
    added = backend.mont_mul(leaf_d_new, rho[:, -1].contiguous(), FR)
    leaf_r_new = backend.add(leaf_r_old, added, FR)
    room.put(torch.stack((leaf_r_old, leaf_d_new, added, leaf_r_new), dim=1))
    leaves = torch.stack((leaf_r_old, leaf_r_new), dim=1)
    _write_replica_paths(backend, shape, witness, leaves, bits, room)
    low, to_apex = own_bits[: shape.tree_d_levels], own_bits[shape.tree_d_levels :]
    room.put(select_wires(witness.apex_leaves, to_apex))
    room.take(shape.tree_d_levels).copy_(witness.siblings_d_new)
    _write_path(backend, leaf_d_new, low, witness.siblings_d_new, room)


def _write_replica_paths(
    backend: Backend,
    shape: UpdateShape,
    witness: UpdateWitness,
    nodes: torch.Tensor,
    bits: torch.Tensor,
    room: _Room,
) -> None:
    """The paths in the old and the new TreeR, level by level for all `nodes` `[8, 2, c]`."""
    n_path = replica_path(shape)
    both = room.take(2 * n_path).view(8, shape.n_challenges, 2, n_path).transpose(1, 2)
    paths = _Room(both)
    pairs = zip(witness.siblings_r_old, witness.siblings_r_new, strict=True)
    siblings = [torch.stack(pair, dim=1) for pair in pairs]
    paths.put(torch.cat(siblings, dim=3).movedim(3, 1))
    ends = accumulate(index_bits(arity) for arity in witness.arities)
    for level, end in zip(siblings, ends, strict=True):
        n_bits = index_bits(level.shape[3] + 1)
        index = bits[end - n_bits : end].unsqueeze(1).expand(-1, 2, -1)
        inserted, children = insert_wires(nodes, index, level.movedim(3, 1))
        hashed = poseidon.merkle_wires(backend, children)
        nodes = hashed[:, -1]
        paths.put(inserted)
        paths.put(hashed)


def _write_path(
    backend: Backend,
    leaves: torch.Tensor,
    bits: torch.Tensor,
    siblings: torch.Tensor,
    room: _Room,
) -> None:
    """Insertion and hash of each level of paths in TreeD.

    Args:
        backend: The operations to use.
        leaves: int32 `[8, n]`.
        bits: bool `[levels, n]`.
        siblings: int32 `[8, n, levels]`.
        room: Of batch `[n]`, or of no batch for one path.
    """
    n, levels = leaves.shape[1], bits.shape[0]
    pairs = path_pairs(backend, leaves, bits, siblings).transpose(2, 3)
    n_level = path_d_level()
    out = room.take(levels * n_level).view(8, n, levels, n_level)
    out[..., :PAIR] = pairs.movedim(1, -1)
    write_pair_wires(backend, pairs, out[..., PAIR:])


def _randomness_wires(backend: Backend, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """`[8, n]` and `[8, n]` to the wires of their hashes, `[8, wires, n]`."""
    return backend.poseidon_wires(torch.stack((a, b), dim=1), RANDOMNESS)


def _number(bits: torch.Tensor) -> torch.Tensor:
    """Bits `[n, c]`, lowest first, to int64 `[c]`."""
    place = torch.arange(bits.shape[0], device=bits.device).unsqueeze(1)
    return (bits.to(torch.int64) << place).sum(dim=0)
