"""C1 outputs as bincode, of the API form and the inner one. Source: spec/porep.md section 8."""

from __future__ import annotations

import numpy as np

from torchzk.circuits.bincode import Reader
from torchzk.circuits.c1 import C1, n_partitions
from torchzk.circuits.layout_bincode import read_values
from torchzk.circuits.layouts import ELEMENT_BYTES
from torchzk.circuits.porep_layout import challenge_layout
from torchzk.circuits.porep_shapes import StackedShape
from torchzk.circuits.registered import (
    REGISTERED_SEALS,
    ApiVersion,
    RegisteredSeal,
    default_seal,
)
from torchzk.errors import InputError

_VARIANTS = tuple(s.sector_size for s in REGISTERED_SEALS if s.api is ApiVersion.V1_0)
"""The sector size that each variant of `vanilla_proofs` stands for."""


def c1_from_bincode(data: bytes, document: str, shape: StackedShape) -> C1:
    """Read bincode; otherwise as `c1_from_text`.

    The two forms differ in their first eight bytes: two small enums, or the count of partitions.
    """
    reader = Reader(data, document)
    own = _api_head(reader, shape) or default_seal(shape.sector.sector_size)
    if own is None:
        raise InputError(f"{document}: no PoRep of {shape.sector.name} sectors is registered")
    layout = challenge_layout(shape)
    count = n_partitions(shape, own)
    reader.count(count, "vanilla_proofs")
    values = []
    for partition in range(count):
        name = f"vanilla_proofs[{partition}]"
        reader.count(shape.n_challenges, name)
        names = [f"{name}[{i}]" for i in range(shape.n_challenges)]
        values.append(read_values(reader, layout, names))
    comm_r, comm_d, replica_id, seed, ticket = (
        reader.take(ELEMENT_BYTES, name)
        for name in ("comm_r", "comm_d", "replica_id", "seed", "ticket")
    )
    reader.end()
    return C1(
        shape=shape,
        registered=own,
        comm_r=comm_r,
        comm_d=comm_d,
        replica_id=replica_id,
        seed=seed,
        ticket=ticket,
        elements=np.stack([v.elements for v in values]),
        integers=np.stack([v.integers for v in values]),
    )


def _api_head(reader: Reader, shape: StackedShape) -> RegisteredSeal | None:
    """The registered proof at the front of the API form; None for the inner one, nothing read."""
    head = reader.take(8, "registered_proof")
    number, variant = int.from_bytes(head[:4], "little"), int.from_bytes(head[4:], "little")
    own = next((s for s in REGISTERED_SEALS if s.number == number), None)
    reader.position = 0
    if own is None or not 0 <= variant < len(_VARIANTS) or _VARIANTS[variant] != own.sector_size:
        return None
    if own.sector_size != shape.sector.sector_size:
        if int.from_bytes(head, "little") in (shape.n_partitions, shape.ni_partitions):
            return None
        reader.fail(
            "registered_proof",
            f"{own.name} is of {own.sector_size} byte sectors,"
            f" the circuit is PoRep of {shape.sector.sector_size}",
        )
    reader.position = len(head)
    return own
