"""The output of commit phase 1, typed: vanilla proofs of a sealed sector, and whose they are.

Source: spec/porep.md section 8.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from torchzk.circuits.layouts import (
    ELEMENT_BYTES,
    Integers,
    Octets,
    Template,
    not_canonical,
    template,
)
from torchzk.circuits.porep_layout import challenge_layout
from torchzk.circuits.porep_shapes import StackedShape
from torchzk.circuits.registered import RegisteredSeal
from torchzk.errors import InputError


@dataclass(frozen=True, eq=False)
class C1:
    """A C1 output: `p` partitions of `c` challenges each.

    Field elements stay in their 32 little-endian bytes, in the order of the challenge's layout.
    """

    shape: StackedShape
    registered: RegisteredSeal
    comm_r: bytes
    comm_d: bytes
    replica_id: bytes
    seed: bytes
    ticket: bytes
    elements: Octets
    """uint8 `[p, c, n, 32]`: canonical field elements."""
    integers: Integers
    """int64 `[p, c, m]`: places in paths, nodes and layers."""
    miner_id: int | None = None
    """Where the file says it."""
    sector_number: int | None = None
    """Where the file says it."""

    @property
    def template(self) -> Template:
        """Says which element and which integer is what."""
        return template(challenge_layout(self.shape))

    @property
    def n_partitions(self) -> int:
        return self.elements.shape[0]


def n_partitions(shape: StackedShape, registered: RegisteredSeal) -> int:
    """Partitions of a proof of this type."""
    return shape.n_partitions if registered.interactive else shape.ni_partitions


def check_c1(c1: C1, document: str) -> None:
    """Raise `InputError` for the first value that no proof can be made of.

    That is a value of r or more where there must be a field element, and zero bytes for comm_d,
    comm_r or seed, which the network refuses.
    """
    for field in fields(c1):
        raw = getattr(c1, field.name)
        if not isinstance(raw, bytes):
            continue
        if field.name in ("comm_r", "comm_d", "seed") and not any(raw):
            raise InputError(
                f"{document}: {field.name}: is all zero: no sealed sector has that,"
                " and the network refuses it"
            )
        if field.name in ("comm_r", "comm_d", "replica_id"):
            _check(np.frombuffer(raw, dtype=np.uint8), document, field.name)
    bad = not_canonical(c1.elements)
    if bad is not None:
        at, k = divmod(bad, c1.elements.shape[2])
        partition, challenge = divmod(at, c1.elements.shape[1])
        name = c1.template.element_names[k]
        element = c1.elements[partition, challenge, k]
        _check(element, document, f"vanilla_proofs[{partition}][{challenge}].{name}")


def _check(element: Octets, document: str, name: str) -> None:
    if not_canonical(element.reshape(1, ELEMENT_BYTES)) is not None:
        raise InputError(f"{document}: {name}: is no field element: its value is r or more")
