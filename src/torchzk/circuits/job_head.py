"""What every job file begins with: parsed JSON, and whether it is for the circuit at all.

Source: spec/interface.md "Job files".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, get_args

from torchzk.circuits.json_input import Node, show
from torchzk.circuits.sectors import SectorShape
from torchzk.errors import InputError
from torchzk.params.fields import FR

JobKind = Literal["porep", "winning", "window", "update"]
JOB_KINDS: tuple[JobKind, ...] = get_args(JobKind)


def check_head(node: Node, kind: str, sector: SectorShape) -> None:
    """Whether a job is of this kind and sector size.

    Raises:
        InputError: It is not.
    """
    check_kind(node, kind, sector)
    size = node.member("sector_size")
    if size.integer(1 << 63) != sector.sector_size:
        size.fail(
            f"the job is for {size.value} byte sectors,"
            f" the circuit is {kind}-{sector.name} of {sector.sector_size}"
        )


def check_kind(node: Node, kind: str, sector: SectorShape) -> None:
    """Whether a job is of this kind.

    First of all, so that a job of another kind is not told about its keys.

    Raises:
        InputError: It is not.
    """
    circuit = f"{kind}-{sector.name}"
    value = node.value
    if not isinstance(value, Mapping):
        node.fail(f"must be an object, is {show(value)}")
    if "kind" not in value and ("Phase1Out" in value or "replica_id" in value):
        node.fail(f"is the C1 output of a PoRep, the circuit is {circuit}")
    own = node.member("kind")
    if own.text() not in JOB_KINDS:
        own.fail(f"must be one of {', '.join(JOB_KINDS)}, is {show(own.value)}")
    if own.value != kind:
        own.fail(f"the job is for {show(own.value)}, the circuit is {circuit}")


def element(node: Node, hint: str = "") -> bytes:
    """A canonical Fr as 64 hex digits, little-endian; `hint` says what to do about another."""
    raw = node.hex32()
    if int.from_bytes(raw, "little") >= FR.modulus:
        node.fail(f"is no field element: as 32 little-endian bytes it is r or more{hint}")
    return raw


def optional_integer(fields: Mapping[str, Node], name: str, most: int) -> int | None:
    """An integer in [0, most], or None where the job does not say it."""
    return fields[name].integer(most) if name in fields else None


def agreed(document: str, what: str, said: int | None, known: int | None) -> int | None:
    """What a job says and what is known from elsewhere, which are the same if there are both.

    Raises:
        InputError: They are not.
    """
    if None not in (said, known) and said != known:
        raise InputError(f"{document}: the {what} is {said}, {known} was asked for")
    return known if said is None else said
