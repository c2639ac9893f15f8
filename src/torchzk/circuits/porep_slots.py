"""A C1 output on a device, as the PoRep circuit's witness. Source: spec/porep.md section 11."""

from __future__ import annotations

import numpy as np
import torch

from torchzk.backends import Backend
from torchzk.circuits.c1 import C1
from torchzk.circuits.elements import to_planes
from torchzk.circuits.merkle_paths import siblings_of
from torchzk.circuits.porep_parts import porep_parts
from torchzk.circuits.porep_witness import MerklePaths, PorepWitness


def porep_witness(backend: Backend, device: torch.device, c1: C1, partition: int) -> PorepWitness:
    """The witness of one partition: two copies to the device, the rest is indexing there."""
    planes = to_planes(backend, device, c1.elements[partition])
    return witness_of_planes(backend, c1, planes, c1.integers[partition])


def witness_of_planes(
    backend: Backend, c1: C1, planes: torch.Tensor, integers: np.typing.NDArray[np.int64]
) -> PorepWitness:
    """The witness that some challenges of a C1 output are.

    Args:
        backend: The operations to use.
        c1: Where the challenges are from.
        planes: `[8, c, n]`: their elements, see `to_planes`.
        integers: `[c, m]`: their integers.
    """
    parts = porep_parts(c1.shape)
    numbers = torch.tensor(integers, device=planes.device)
    raw = b"".join((c1.replica_id, c1.comm_d, c1.comm_r))
    sector = to_planes(backend, planes.device, np.frombuffer(raw, dtype=np.uint8).reshape(3, -1))
    data, paths = parts.data, parts.paths
    return PorepWitness(
        replica_id=sector[:, 0],
        comm_d=sector[:, 1],
        comm_r=sector[:, 2],
        comm_c=planes[:, 0, parts.columns[0].root],
        comm_r_last=planes[:, 0, parts.replica.root],
        challenges=numbers[:, parts.labels[0].node],
        data_leaves=planes[:, :, data.leaf],
        data_paths=MerklePaths(
            indices=numbers[:, data.indices],
            siblings=torch.split(planes[:, :, data.siblings], 1, dim=2),
        ),
        parent_columns=planes[:, :, torch.tensor(parts.rows[1:], device=planes.device)],
        paths=MerklePaths(
            indices=torch.stack([numbers[:, path.indices] for path in paths], dim=1),
            siblings=siblings_of(planes, paths, c1.shape.arities),
        ),
    )
