"""The value of every variable of a PoRep partition, as a batched tensor program.

Source: spec/porep.md section 11.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from torchzk.backends import Backend
from torchzk.circuits.circuit import WitnessBytes
from torchzk.circuits.gadgets import poseidon
from torchzk.circuits.gadgets.data_tree import path_pairs
from torchzk.circuits.gadgets.num import bit_wires, integer_wires, one, to_bits_wires
from torchzk.circuits.gadgets.pair_wires import pair_wires_bytes, write_pair_wires
from torchzk.circuits.gadgets.por import (
    leaf_index,
    level_wires,
    por_wires,
    por_wires_bytes,
)
from torchzk.circuits.porep import prologue
from torchzk.circuits.porep_bank import labels_and_bank
from torchzk.circuits.porep_shapes import PARENTS, StackedShape
from torchzk.circuits.porep_wires import ChallengeWires, challenge_wires
from torchzk.circuits.porep_witness import COLUMN_PATH, PATHS, REPLICA_PATH, PorepWitness
from torchzk.device_cache import kept_by_device
from torchzk.errors import LayoutError
from torchzk.groth16.r1cs import Assignment
from torchzk.params.fields import FR


def porep_numbers(shape: StackedShape) -> tuple[int, int]:
    """See `Circuit.most_numbers`: of a level of TreeD all but the nodes are bits."""
    wires = challenge_wires(shape)
    n_path = sum(level_wires(arity) for arity in shape.arities)
    columns = PARENTS * wires.column_stride + wires.n_column_hash + 2 * n_path
    nodes = 1 + 4 * shape.data_levels + shape.layers + 1
    return prologue().n_aux, columns + nodes


def porep_witness_bytes(shape: StackedShape, *, on_cpu: bool) -> WitnessBytes:
    """See `Circuit.witness_bytes`."""
    wires, c = challenge_wires(shape), shape.n_challenges
    siblings = shape.data_levels + PATHS * sum(arity - 1 for arity in shape.arities)
    # what is indexed of the planes is copied
    given = 2 * FR.n_bytes * c * (PARENTS * shape.layers + siblings + PATHS)
    bank = 4 * c * wires.bank.n_words
    # the word of every bit, and the table that says which: 4, 1 and 1 bytes
    bits = bank + 4 * c * wires.n_aux
    pairs = bank + pair_wires_bytes(c, shape.data_levels, on_cpu=on_cpu)
    columns = FR.n_bytes * c * (PARENTS + 1) * 2 * (wires.n_column_hash + shape.layers)
    paths = bank + columns + por_wires_bytes(shape.arities, c * PATHS)
    return WitnessBytes(given, 6 * wires.n_aux + max(bits, pairs, paths))


def assign(backend: Backend, shape: StackedShape, witness: PorepWitness) -> Assignment:
    """The value of every variable.

    Nothing is read back from the device, and no step is longer than what depends on each other:
    20 blocks of a label, the levels of TreeD, those of TreeC. Whether the values satisfy the
    circuit is not looked at. Beside the result it takes 4 bytes for each aux variable.

    Args:
        backend: The operations to use.
        shape: The circuit.
        witness: The vanilla proofs of a partition.

    Returns:
        An assignment on the device of `witness`.

    Raises:
        LayoutError: `witness` is of another shape.
    """
    got = (
        witness.n_challenges,
        witness.layers,
        len(witness.data_paths.arities),
        witness.paths.arities,
    )
    expected = (shape.n_challenges, shape.layers, shape.data_levels, shape.arities)
    if got != expected:
        names = "(challenges, layers, TreeD levels, arities)"
        raise LayoutError(f"{names} must be {expected}, got {got}")
    return Assignment(inputs=_inputs(backend, witness), aux=_aux(backend, shape, witness))


def _inputs(backend: Backend, witness: PorepWitness) -> torch.Tensor:
    leaves = leaf_index(witness.paths.indices, witness.paths.arities)
    node = witness.challenges.unsqueeze(1)
    data = leaf_index(witness.data_paths.indices, witness.data_paths.arities).unsqueeze(1)
    numbers = torch.cat((data, leaves[:, :PARENTS], node, leaves[:, PARENTS:]), dim=1)
    commitments = torch.stack((witness.replica_id, witness.comm_d, witness.comm_r), dim=1)
    own = integer_wires(backend, numbers).flatten(1)
    return torch.cat((one(own.device), commitments, own), dim=1)


def _aux(backend: Backend, shape: StackedShape, witness: PorepWitness) -> torch.Tensor:
    wires = challenge_wires(shape)
    labels, bank = labels_and_bank(backend, witness, wires.bank)
    n_head, c = prologue().n_aux, witness.n_challenges
    n_aux = n_head + c * wires.n_aux
    aux = torch.empty(8, n_aux, dtype=torch.int32, device=witness.challenges.device)
    aux[:, :n_head] = _prologue_wires(backend, witness)
    block = aux[:, n_head:].view(8, c, wires.n_aux)
    _write_bits(bank, wires, block)
    _write_data(backend, witness, wires, block)
    _write_columns(backend, witness, labels, wires, block)
    return aux


def _prologue_wires(backend: Backend, witness: PorepWitness) -> torch.Tensor:
    replica_id = witness.replica_id.unsqueeze(1)
    roots = (witness.comm_d, witness.comm_r, witness.comm_r_last, witness.comm_c)
    children = torch.stack((witness.comm_c, witness.comm_r_last), dim=1)
    parts = (
        replica_id,
        bit_wires(to_bits_wires(backend, replica_id)).flatten(1),
        torch.stack(roots, dim=1),
        poseidon.merkle_wires(backend, children.unsqueeze(2)).squeeze(2),
    )
    return torch.cat(parts, dim=1)


@dataclass(frozen=True)
class _Bits:
    """A `porep_wires.BitTable` on a device."""

    word: torch.Tensor
    lift: torch.Tensor
    flip: torch.Tensor


@kept_by_device(4)
def _bits_on(wires: ChallengeWires, device: torch.device) -> _Bits:
    table = wires.bits
    return _Bits(*(torch.from_numpy(x).to(device) for x in (table.word, table.lift, table.flip)))


def _write_bits(bank: torch.Tensor, wires: ChallengeWires, block: torch.Tensor) -> None:
    """Every variable of the block as if it were a bit; numbers are written afterwards."""
    bits = _bits_on(wires, bank.device)
    words = bank.index_select(1, bits.word)
    # the bit to the top, and from there to all places: 0 or -1
    words <<= bits.lift
    words >>= 31
    words ^= bits.flip
    torch.bitwise_and(words, one(bank.device).unsqueeze(2), out=block)


def _write_data(
    backend: Backend, witness: PorepWitness, wires: ChallengeWires, block: torch.Tensor
) -> None:
    """The leaf of TreeD and its path."""
    paths = witness.data_paths
    block[:, :, wires.data_leaf] = witness.data_leaves
    stride, levels = wires.data_stride, len(paths.arities)
    start = wires.data_levels
    by_level = block[:, :, start : start + levels * stride].view(8, -1, levels, stride)
    siblings = torch.cat(paths.siblings, dim=2)
    pairs = path_pairs(backend, witness.data_leaves, paths.indices.t().bool(), siblings)
    pairs = pairs.transpose(2, 3)
    by_level[..., 1] = siblings
    by_level[..., 2:4] = pairs.movedim(1, 3)
    write_pair_wires(backend, pairs, by_level[..., 4:])


def _write_columns(
    backend: Backend,
    witness: PorepWitness,
    labels: torch.Tensor,
    wires: ChallengeWires,
    block: torch.Tensor,
) -> None:
    """Labels, the replica node, columns, their hashes, and the paths in TreeC and TreeR."""
    layers, n_hash = witness.layers, wires.n_column_hash
    for layer, place in enumerate(wires.labels):
        block[:, :, place] = labels[:, :, layer]
    key = labels[:, :, -1].contiguous()
    replica_node = backend.add(key, witness.data_leaves, FR)
    block[:, :, wires.replica_node] = replica_node
    stop = wires.columns + PARENTS * wires.column_stride
    parents = block[:, :, wires.columns : stop].view(8, -1, PARENTS, wires.column_stride)
    parents[..., :layers] = witness.parent_columns
    columns = torch.cat((witness.parent_columns, labels.unsqueeze(2)), dim=2)
    hashed = poseidon.merkle_wires(backend, columns.movedim(3, 1)).movedim(1, 3)
    parents[..., layers : layers + n_hash] = hashed[:, :, :PARENTS]
    block[:, :, wires.column_hash : wires.column_hash + n_hash] = hashed[:, :, PARENTS]
    roots = hashed[..., -1]
    leaves = torch.cat((roots[:, :, :PARENTS], replica_node.unsqueeze(2), roots[:, :, PARENTS:]), 2)
    parent_at, at = layers + n_hash, 0
    paths = witness.paths
    for level in por_wires(backend, leaves, paths.indices, paths.siblings, poseidon.merkle_wires):
        level = level.movedim(1, 3)
        n = level.shape[3]
        parents[..., parent_at + at : parent_at + at + n] = level[:, :, :PARENTS]
        for place, path in (
            (wires.replica_path, REPLICA_PATH),
            (wires.column_hash + n_hash, COLUMN_PATH),
        ):
            block[:, :, place + at : place + at + n] = level[:, :, path]
        at += n
