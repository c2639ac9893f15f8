"""A job of a sector update on a device, as the circuit's witness.

Source: spec/post_update.md section 10.
"""

from __future__ import annotations

import numpy as np
import torch

from torchzk.backends import Backend
from torchzk.circuits.elements import to_planes
from torchzk.circuits.layouts import Octets
from torchzk.circuits.merkle_paths import siblings_of
from torchzk.circuits.update_job import UpdateJob
from torchzk.circuits.update_proof import update_parts
from torchzk.circuits.update_witness import UpdateWitness
from torchzk.errors import LayoutError


def update_witness(
    backend: Backend, device: torch.device, job: UpdateJob, partition: int
) -> UpdateWitness:
    """The witness of one partition: one copy to the device, the rest is indexing there.

    Raises:
        LayoutError: There is no such partition.
    """
    if not 0 <= partition < job.n_partitions:
        raise LayoutError(f"no partition {partition} of {job.n_partitions}")
    shape, parts = job.shape, update_parts(job.shape)
    raw = np.frombuffer(job.comm_r_old + job.comm_d_new + job.comm_r_new, dtype=np.uint8)
    own = job.elements[partition]
    both: Octets = np.concatenate((own, raw.reshape(3, -1)))
    planes = to_planes(backend, device, both)
    commitments = planes[:, len(own) :]
    paths_d = siblings_of(planes, parts.d_new, (2,) * shape.node_bits)
    # the circuit takes what is above the partition's root from its first challenge
    above = [level[:, :1, 0] for level in paths_d[shape.challenge_bits :]]
    below = [level[:, :, 0] for level in paths_d[: shape.tree_d_levels]]
    n_challenges = shape.n_challenges
    return UpdateWitness(
        partition=torch.full((1,), partition, dtype=torch.int64, device=device),
        comm_r_old=commitments[:, 0:1],
        comm_d_new=commitments[:, 1:2],
        comm_r_new=commitments[:, 2:3],
        comm_c=planes[:, [parts.comm_c]],
        root_r_old=planes[:, [parts.r_old[0].root]],
        root_r_new=planes[:, [parts.r_new[0].root]],
        apex_leaves=planes[:, parts.apex_leaves],
        partition_path=torch.cat(above, dim=1) if above else planes[:, :0],
        leaves_r_old=planes[:, [path.leaf for path in parts.r_old]],
        leaves_d_new=planes[:, [path.leaf for path in parts.d_new]],
        siblings_r_old=siblings_of(planes, parts.r_old, shape.sector.tree_r.arities),
        siblings_r_new=siblings_of(planes, parts.r_new, shape.sector.tree_r.arities),
        siblings_d_new=torch.stack(below, dim=2) if below else planes.new_empty(8, n_challenges, 0),
    )
