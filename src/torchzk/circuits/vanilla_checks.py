"""Vanilla proofs of PoSt, verified before anything is proven of them.

Source: spec/post_update.md section 3. All paths of a partition are hashed at once, level by level.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch

from torchzk.backends import Backend
from torchzk.circuits.merkle_paths import digits, first_difference, path_nodes
from torchzk.circuits.path_faults import ComputedPath, describe_fault, siblings_by_level
from torchzk.circuits.post_job import PostJob
from torchzk.circuits.post_slots import PostSlots
from torchzk.circuits.slots import challenged_leaves, sector_tensors
from torchzk.circuits.vanilla import SectorProof
from torchzk.errors import InputError
from torchzk.ops.layout import unpack_mont
from torchzk.params.fields import FR
from torchzk.params.poseidon import Poseidon


def check_sectors(backend: Backend, device: torch.device, job: PostJob) -> None:
    """Verify the vanilla proof of every sector of a job.

    Args:
        backend: The operations to use.
        device: Where to hash.
        job: A loaded job.

    Raises:
        InputError: The first proof that does not hold: names sector, challenge and level.
    """
    arities = job.shape.sector.tree_r.arities
    for partition in range(job.n_partitions):
        sectors = job.partition(partition)
        leaves = challenged_leaves(job, partition)
        for sector, wanted in zip(sectors, leaves, strict=True):
            _check_places(sector, wanted, arities)
        tensors = sector_tensors(backend, device, sectors, arities)
        _check_commitments(backend, sectors, tensors)
        _check_paths(backend, sectors, leaves, tensors)


def _check_places(sector: SectorProof, leaves: Sequence[int], arities: Sequence[int]) -> None:
    """What needs no hashing: each path leads from the challenged leaf to comm_r_last."""
    for challenge, (path, leaf) in enumerate(zip(sector.paths, leaves, strict=True)):
        place = f"sector {sector.sector_id}: challenge {challenge} (leaf {leaf})"
        if path.root != sector.comm_r_last:
            raise InputError(
                f"{place}: the root {path.root.hex()} of the Merkle proof"
                f" is not comm_r_last {sector.comm_r_last.hex()}"
            )
        wanted = digits(leaf, arities)
        if path.indices != wanted:
            level = next(
                i for i, (a, b) in enumerate(zip(path.indices, wanted, strict=True)) if a != b
            )
            raise InputError(
                f"{place}: level {level}: the path has index {path.indices[level]},"
                f" the challenged leaf has {wanted[level]} there; are randomness, sector id"
                " and registered proof those the proof was made for?"
            )


def _check_commitments(
    backend: Backend, sectors: Sequence[SectorProof], tensors: PostSlots
) -> None:
    children = torch.stack((tensors.comm_c, tensors.comm_r_last), dim=1)
    computed = backend.poseidon(children, Poseidon.merkle(2))
    wrong = first_difference(computed, tensors.comm_r)
    if wrong is not None:
        sector = sectors[wrong]
        raise InputError(
            f"sector {sector.sector_id}: comm_r {sector.comm_r.hex()}"
            " is not the Poseidon hash of comm_c and comm_r_last"
        )


def _check_paths(
    backend: Backend,
    sectors: Sequence[SectorProof],
    leaves: Sequence[Sequence[int]],
    tensors: PostSlots,
) -> None:
    *_, roots = _nodes(backend, tensors)
    expected = tensors.comm_r_last.unsqueeze(2).expand_as(roots)
    wrong = first_difference(roots, expected)
    if wrong is None:
        return
    at, challenge = divmod(wrong, tensors.n_challenges)
    sector, leaf = sectors[at], leaves[at][challenge]
    paths = _computed_paths(backend, tensors.leaves.device, sector, tensors.arities)
    fault = describe_fault(paths, challenge, int.from_bytes(sector.comm_r_last, "little"))
    raise InputError(f"sector {sector.sector_id}: challenge {challenge} (leaf {leaf}): {fault}")


def _nodes(backend: Backend, tensors: PostSlots) -> Iterator[torch.Tensor]:
    """The running node of each path, `[8, s, c]` a level: the leaf first, the root last."""
    return path_nodes(backend, tensors.leaves, tensors.indices, tensors.siblings)


def _computed_paths(
    backend: Backend, device: torch.device, sector: SectorProof, arities: Sequence[int]
) -> list[ComputedPath]:
    """The paths of one sector with all their nodes, on the host."""
    tensors = sector_tensors(backend, device, [sector], arities)
    nodes = [unpack_mont(node.flatten(1), FR) for node in _nodes(backend, tensors)]
    return [
        ComputedPath(
            indices=tuple(path.indices),
            siblings=siblings_by_level(path.siblings, arities),
            nodes=tuple(level[i] for level in nodes),
        )
        for i, path in enumerate(sector.paths)
    ]
