"""Refusing work that cannot fit, before any of it is done. All figures in bytes."""

from __future__ import annotations

import torch

from torchzk.errors import ResourceError
from torchzk.groth16.encoding import uncompressed_size
from torchzk.groth16.keys import QUERIES
from torchzk.groth16.lengths import expected_lengths
from torchzk.groth16.r1cs import R1cs
from torchzk.scheduler import machine
from torchzk.scheduler.session import Session

_ELEMENT = 32
"""An Fr in limbs."""
_A_ROW = 3 * _ELEMENT + 200
"""a, b and c, and the wide words of the quotient's transforms at their peak, 180 a row."""
_A_VARIABLE = 3 * _ELEMENT
"""An assignment, its canonical form, and the scalars of one query."""
_SCRATCH = 1 << 30
"""The scratch of a multi-scalar multiplication, the libraries, the rest."""


def proving_need(r1cs: R1cs) -> int:
    """What proving one partition takes at its peak, points of the key not counted: they stream."""
    variables = r1cs.n_inputs + r1cs.n_aux
    return _A_ROW * r1cs.domain.size + _A_VARIABLE * variables + _SCRATCH


def setup_need(r1cs: R1cs) -> int:
    """What making a key takes at its peak: all of its points are held."""
    lengths = expected_lengths(r1cs)
    points = sum(lengths.of(name) * uncompressed_size(curve) for name, curve in QUERIES.items())
    return points + proving_need(r1cs)


def check_memory(session: Session, need: int, what: str) -> None:
    """Raise `ResourceError`, with the numbers, when the session's device has not `need` bytes."""
    device = session.device
    if device.type == "cuda":
        there, _ = torch.cuda.mem_get_info(device)
    else:
        there = machine.memory().usable
    if need > there:
        raise ResourceError(
            f"{what} of {session.circuit.name} takes about {need / 2**30:.1f} GiB on {device}, "
            f"{there / 2**30:.1f} GiB are available; use a device with more"
        )
