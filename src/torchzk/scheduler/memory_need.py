"""Refusing work that cannot fit, before any of it is done. All figures in bytes."""

from __future__ import annotations

from pathlib import Path

import torch

from torchzk.backends import BackendName
from torchzk.errors import ResourceError
from torchzk.groth16.encoding import uncompressed_size
from torchzk.groth16.keys import QUERIES, QueryLengths
from torchzk.groth16.lengths import expected_lengths
from torchzk.groth16.prover import Room
from torchzk.groth16.r1cs import R1cs
from torchzk.params.curves import G1, G2
from torchzk.scheduler import machine
from torchzk.scheduler.session import Session

_ELEMENT = 32
"""An Fr in limbs."""
_A_ROW: dict[BackendName, int] = {"torch": 3 * _ELEMENT + 640, "triton": 3 * _ELEMENT + 200}
"""a, b and c, and the quotient at its peak: the reference takes 620 to 630 a row for it from 2^20
to 2^22 rows; the kernels take two vectors of scratch, their result, and tables of roots."""
_A_VARIABLE = 3 * _ELEMENT
"""An assignment, its canonical form, and the scalars of one query."""
_A_ROW_AT_TAU, _A_COLUMN_AT_TAU = 8 * _ELEMENT, 5 * _ELEMENT
"""The Lagrange basis and the columns it gives: measured on the CPU, 207 a row and 117 a column."""
_SCRATCH = 1 << 30
"""The scratch of a multi-scalar multiplication, the libraries, the rest."""
_MOST_SCRATCH: dict[BackendName, int] = {"torch": 1 << 29, "triton": 40 << 30}
"""As much as each backend's multi-scalar multiplication has been measured with."""


def proving_need(r1cs: R1cs, backend: BackendName) -> int:
    """What proving one partition takes at its peak, points of the key not counted: they stream."""
    variables = r1cs.n_inputs + r1cs.n_aux
    return _A_ROW[backend] * r1cs.domain.size + _A_VARIABLE * variables + _SCRATCH


def setup_need(r1cs: R1cs) -> int:
    """What making a key takes at its peak; its points are written as they are made."""
    variables = r1cs.n_inputs + r1cs.n_aux
    return _A_ROW_AT_TAU * r1cs.domain.size + _A_COLUMN_AT_TAU * variables + _SCRATCH


def key_bytes(lengths: QueryLengths) -> int:
    """What the points of a key take, on disk as well as on a device."""
    return sum(lengths.of(name) * uncompressed_size(curve) for name, curve in QUERIES.items())


def key_stays(device: torch.device, backend: BackendName, r1cs: R1cs, free: int) -> bool:
    """Whether a key is kept on the device: on CUDA, if it leaves the room that proving takes.

    On the CPU a key file is mapped, and the system keeps of it what there is memory for.
    """
    need = key_bytes(expected_lengths(r1cs)) + proving_need(r1cs, backend)
    return device.type == "cuda" and need <= free


def msm_room(
    device: torch.device, backend: BackendName, r1cs: R1cs, free: int, *, key_is_there: bool
) -> Room:
    """What the multi-scalar multiplications of a proof may take of `free` bytes.

    Args:
        free: What the device has free while the assignment is there, and the key if it stays.
        key_is_there: Whether the key's points lie on the device, so that taking them costs nothing.
    """
    if device.type != "cuda":
        return Room()
    # the scalars of all queries; h, and the part of it that is at work
    scalars = 3 * _ELEMENT * (r1cs.n_inputs + r1cs.n_aux) + 2 * _ELEMENT * r1cs.domain.size
    # some of what is free is in pieces
    usable = max(0, free - scalars) * 7 // 8
    least = Room()
    if key_is_there:
        whole, rows = r1cs.domain.size + r1cs.n_inputs + r1cs.n_aux, 0
        g1_points = g2_points = max(whole, 1)
    else:
        rows = usable // 3
        g1_points, g2_points = (
            max(most, rows // uncompressed_size(curve))
            for most, curve in ((least.g1_points, G1), (least.g2_points, G2))
        )
    scratch = min(max(usable - rows, least.scratch_bytes), _MOST_SCRATCH[backend])
    return Room(g1_points, g2_points, scratch)


def free_memory(device: torch.device) -> int:
    """Bytes to be had on `device`; on CUDA with those that torch keeps for its next tensor."""
    if device.type != "cuda":
        return machine.memory().usable
    free, _ = torch.cuda.mem_get_info(device)
    return free + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)


def check_memory(session: Session, need: int, what: str) -> None:
    """Raise `ResourceError`, with the numbers, when the session's device has not `need` bytes."""
    device = session.device
    there = free_memory(device)
    if need > there:
        raise ResourceError(
            f"{what} of {session.circuit.name} takes about {need / 2**30:.1f} GiB on {device}, "
            f"{there / 2**30:.1f} GiB are available; use a device with more"
        )


def check_disk(folder: Path, need: int, what: str) -> None:
    """Raise `ResourceError`, with the numbers, when the disk of `folder` has not `need` bytes."""
    there = machine.disk_free(folder)
    if need > there:
        raise ResourceError(
            f"{what} takes {need / 2**30:.1f} GiB in {folder}, "
            f"{there / 2**30:.1f} GiB are free there"
        )
