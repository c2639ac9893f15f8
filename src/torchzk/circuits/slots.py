"""A job as the circuit wants it: challenged leaves, tensors on the device, public inputs.

Source: spec/post_update.md sections 1, 2 and 4.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from torchzk.backends import Backend
from torchzk.circuits.challenges import challenge_indexes, leaf_challenge
from torchzk.circuits.elements import to_planes
from torchzk.circuits.layouts import ELEMENT_BYTES
from torchzk.circuits.post_job import PostJob
from torchzk.circuits.post_slots import PostSlots
from torchzk.circuits.vanilla import SectorProof


def challenged_leaves(job: PostJob, partition: int) -> list[list[int]]:
    """The leaf of each challenge, for each sector of the job's partition `partition`."""
    shape = job.shape
    first = (job.first_partition + partition) * shape.sectors_per_partition
    leaves = []
    for place, sector in enumerate(job.partition(partition), start=first):
        indexes = challenge_indexes(job.registered.api, place, shape.challenges_per_sector)
        n_nodes = shape.sector.n_nodes
        leaves.append(
            [leaf_challenge(job.randomness, sector.sector_id, i, n_nodes) for i in indexes]
        )
    return leaves


def public_inputs(job: PostJob, partition: int) -> list[int]:
    """The public inputs of the job's partition `partition`, without ONE, canonical.

    For each slot comm_r and the numbers of the challenged leaves; padding repeats the last slot.
    """
    shape = job.shape
    groups = []
    for sector, leaves in zip(
        job.partition(partition), challenged_leaves(job, partition), strict=True
    ):
        comm_r = int.from_bytes(sector.comm_r, "little")
        for i in range(0, len(leaves), shape.n_challenges):
            groups.append([comm_r, *leaves[i : i + shape.n_challenges]])
    groups += [groups[-1]] * (shape.n_slots - len(groups))
    return [value for group in groups for value in group]


def slots_of(backend: Backend, device: torch.device, job: PostJob, partition: int) -> PostSlots:
    """The slots of the job's partition `partition` on `device`, padded by repeating the last."""
    shape = job.shape
    got = sector_tensors(backend, device, job.partition(partition), shape.sector.tree_r.arities)
    # winning PoSt: the one sector's challenges become slots of one challenge each
    repeats = shape.challenges_per_sector // shape.n_challenges
    sector = torch.arange(shape.n_slots, device=device) // repeats
    sector = sector.clamp(max=got.n_slots - 1)
    own = (got.n_slots * repeats, shape.n_challenges)
    slot = torch.arange(shape.n_slots, device=device).clamp(max=own[0] - 1)
    return PostSlots(
        comm_r=got.comm_r[:, sector],
        comm_c=got.comm_c[:, sector],
        comm_r_last=got.comm_r_last[:, sector],
        leaves=got.leaves.reshape(8, *own)[:, slot],
        indices=got.indices.reshape(*own, -1)[slot],
        siblings=tuple(x.reshape(8, *own, -1)[:, slot] for x in got.siblings),
    )


def sector_tensors(
    backend: Backend,
    device: torch.device,
    sectors: Sequence[SectorProof],
    arities: Sequence[int],
) -> PostSlots:
    """Sectors as tensors: a slot a sector, a challenge a path, no padding.

    Args:
        backend: The operations to use.
        device: Where the tensors shall be.
        sectors: One or more, with as many paths each.
        arities: Arity of each level of the paths, from the leaf upwards.
    """
    s, c = len(sectors), len(sectors[0].paths)

    def elements(raw: bytes, *batch: int) -> torch.Tensor:
        octets = np.frombuffer(raw, dtype=np.uint8).reshape(*batch, ELEMENT_BYTES)
        return to_planes(backend, device, octets)

    commitments = elements(
        b"".join(x.comm_r + x.comm_c + x.comm_r_last for x in sectors), s, 3
    ).unbind(2)
    paths = [path for sector in sectors for path in sector.paths]
    places = np.frombuffer(b"".join(path.indices for path in paths), dtype=np.uint8)
    widths = [arity - 1 for arity in arities]
    siblings = elements(b"".join(path.siblings for path in paths), s, c, sum(widths))
    return PostSlots(
        comm_r=commitments[0],
        comm_c=commitments[1],
        comm_r_last=commitments[2],
        leaves=elements(b"".join(path.leaf for path in paths), s, c),
        indices=torch.tensor(places.reshape(s, c, len(arities)), dtype=torch.int64, device=device),
        siblings=siblings.split_with_sizes(widths, dim=3),
    )
