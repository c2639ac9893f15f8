"""Vanilla proofs of a PoRep, verified before anything is proven of them.

Everything that the circuit enforces and everything that the network's verifier computes is looked
at: whose sector it is, which nodes are opened, labels, columns, every Merkle path.
Source: spec/porep.md section 9.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

from torchzk.backends import Backend
from torchzk.circuits.c1 import C1
from torchzk.circuits.elements import to_planes
from torchzk.circuits.merkle_paths import first_difference, path_nodes
from torchzk.circuits.miner_id import prover_id
from torchzk.circuits.part_paths import computed_path
from torchzk.circuits.path_faults import describe_fault
from torchzk.circuits.porep_batch import PorepBatch
from torchzk.circuits.porep_label_checks import check_data_paths, check_labels
from torchzk.circuits.porep_node_checks import check_nodes
from torchzk.circuits.porep_parts import porep_parts
from torchzk.circuits.porep_slots import witness_of_planes
from torchzk.circuits.replica_id import porep_id, replica_commitment, replica_id
from torchzk.errors import InputError
from torchzk.ops.layout import unpack_mont
from torchzk.params.fields import FR
from torchzk.params.poseidon import Poseidon

# a non-interactive proof has 126 of them, each with 1 MB of elements
_PARTITIONS_AT_ONCE = 10


def check_porep(
    backend: Backend,
    device: torch.device,
    c1: C1,
    *,
    miner_id: int | None = None,
    sector_number: int | None = None,
) -> None:
    """Verify the vanilla proofs of all partitions.

    Args:
        backend: The operations to use.
        device: Where to hash columns and Poseidon trees.
        c1: A C1 output.
        miner_id: Whose sector it is. Only with both numbers is replica_id checked.
        sector_number: Which sector of the miner's.

    Raises:
        InputError: The first thing that does not hold: names partition, challenge, proof, level.
    """
    if miner_id is not None and sector_number is not None:
        _check_replica_id(c1, miner_id, sector_number)
    for first in range(0, c1.n_partitions, _PARTITIONS_AT_ONCE):
        stop = min(first + _PARTITIONS_AT_ONCE, c1.n_partitions)
        batch = PorepBatch(c1, range(first, stop))
        check_nodes(batch)
        _check_roots(batch)
        if not first:
            _check_comm_r(c1)
        check_labels(batch)
        check_data_paths(batch)
        planes = to_planes(backend, device, batch.elements)
        _check_columns(backend, batch, planes)
        _check_paths(backend, batch, planes)


def _check_replica_id(c1: C1, miner_id: int, sector_number: int) -> None:
    graph = porep_id(c1.registered)
    wanted = replica_id(prover_id(miner_id), sector_number, c1.ticket, c1.comm_d, graph)
    if wanted != c1.replica_id:
        raise InputError(
            f"replica_id {c1.replica_id.hex()} is not that of miner {miner_id}, sector"
            f" {sector_number}, {c1.registered.name} with this ticket and comm_d:"
            f" that is {wanted.hex()}"
        )


def _check_roots(batch: PorepBatch) -> None:
    """comm_d, comm_c and comm_r_last are the same everywhere."""
    c1, parts = batch.c1, batch.parts
    first = c1.elements[0, 0]
    comm_c, comm_r_last = (first[x].tobytes() for x in (parts.columns[0].root, parts.replica.root))
    wanted = [(parts.data, c1.comm_d, "comm_d"), (parts.replica, comm_r_last, "comm_r_last")]
    wanted += [(column, comm_c, "comm_c") for column in parts.columns]
    for path, root, name in wanted:
        for k, got in enumerate(batch.elements[:, path.root]):
            if got.tobytes() != root:
                batch.fail(
                    k,
                    f"{path.name}: the root {got.tobytes().hex()} is not"
                    f" {name} {root.hex()} of the sector",
                )


def _check_comm_r(c1: C1) -> None:
    parts, first = porep_parts(c1.shape), c1.elements[0, 0]
    roots = (first[x].tobytes() for x in (parts.columns[0].root, parts.replica.root))
    if replica_commitment(*roots) != c1.comm_r:
        raise InputError(
            f"comm_r {c1.comm_r.hex()} is not the Poseidon hash of comm_c and comm_r_last,"
            " the roots of its Merkle proofs"
        )


def _check_columns(backend: Backend, batch: PorepBatch, planes: torch.Tensor) -> None:
    parts = batch.parts
    rows = planes[:, :, torch.tensor(parts.rows, device=planes.device)]
    hashes = backend.poseidon(rows.movedim(-1, 1), Poseidon.merkle(rows.shape[-1]))
    wrong = first_difference(hashes, planes[:, :, [path.leaf for path in parts.columns]])
    if wrong is not None:
        k, column = divmod(wrong, len(parts.columns))
        name = parts.columns[column].name
        batch.fail(k, f"{name}: the leaf is not the Poseidon hash of the column's rows")


def _check_paths(backend: Backend, batch: PorepBatch, planes: torch.Tensor) -> None:
    paths = batch.parts.paths
    *_, roots = _nodes(backend, batch, planes, slice(None))
    wrong = first_difference(roots, planes[:, :, [path.root for path in paths]])
    if wrong is None:
        return
    k, place = divmod(wrong, len(paths))
    own = batch.partition_of(k)
    is_replica = [path is batch.parts.replica for path in paths]
    levels = [unpack_mont(node.flatten(1), FR) for node in _nodes(backend, batch, planes, own)]
    # the paths of one tree tell of each other
    same = [i for i, replica in enumerate(is_replica) if replica == is_replica[place]]
    computed = [
        computed_path(
            batch.elements[c],
            batch.integers[c],
            paths[i],
            batch.c1.shape.arities,
            (level[(c - own.start) * len(paths) + i] for level in levels),
        )
        for c in range(own.start, own.stop)
        for i in same
    ]
    bad = (k - own.start) * len(same) + same.index(place)
    root = int.from_bytes(batch.elements[k, paths[place].root].tobytes(), "little")
    batch.fail(k, f"{paths[place].name}: {describe_fault(computed, bad, root)}")


def _nodes(
    backend: Backend, batch: PorepBatch, planes: torch.Tensor, own: slice
) -> Iterator[torch.Tensor]:
    """The running nodes of the paths of some challenges, `[8, c, 16]` a level."""
    paths = batch.parts.paths
    witness = witness_of_planes(backend, batch.c1, planes[:, own], batch.integers[own])
    leaves = planes[:, own][:, :, [path.leaf for path in paths]]
    return path_nodes(backend, leaves, witness.paths.indices, witness.paths.siblings)
