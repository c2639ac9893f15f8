"""Registered proofs: the names and numbers Filecoin gives a circuit and its API version.

Source: spec/post_update.md section 1 and spec/porep.md section 2; the five sizes in the enum's
order.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Literal, Protocol, TypeVar

from torchzk.circuits.json_input import Node, show
from torchzk.circuits.sectors import SECTOR_SHAPES

PostKind = Literal["winning", "window"]


class ApiVersion(Enum):
    """The version of the proofs API.

    PoSt versions differ in their challenge indexes, PoRep's in the parents of 1.0.0; nothing else.
    """

    V1_0 = "1.0.0"
    V1_1 = "1.1.0"
    V1_2 = "1.2.0"


@dataclass(frozen=True)
class RegisteredPost:
    """A PoSt proof type. Sizes that exist for tests only have a name but no number."""

    number: int | None
    name: str
    kind: PostKind
    sector_size: int
    api: ApiVersion


@dataclass(frozen=True)
class RegisteredSeal:
    """A PoRep proof type."""

    number: int
    name: str
    sector_size: int
    api: ApiVersion
    synthetic: bool
    """Challenges come from a set that the sector itself fixes."""
    interactive: bool
    """Challenges need a seed from the chain."""

    @property
    def by_seed_alone(self) -> bool:
        """Whether challenges follow from replica_id and seed, and not from comm_r."""
        return self.interactive and not self.synthetic


@dataclass(frozen=True)
class RegisteredUpdate:
    """A sector update proof type."""

    number: int
    name: str
    sector_size: int


_REGISTERED_SIZES = ("2KiB", "8MiB", "512MiB", "32GiB", "64GiB")
_POST_FAMILIES: tuple[tuple[PostKind, str, str, ApiVersion], ...] = (
    ("winning", "StackedDrgWinning", "V1", ApiVersion.V1_0),
    ("window", "StackedDrgWindow", "V1", ApiVersion.V1_0),
    ("window", "StackedDrgWindow", "V1_2", ApiVersion.V1_2),
)
_SEAL_FAMILIES = (
    ("V1", ApiVersion.V1_0),
    ("V1_1", ApiVersion.V1_1),
    ("V1_1_Feat_SyntheticPoRep", ApiVersion.V1_2),
    ("V1_2_Feat_NonInteractivePoRep", ApiVersion.V1_2),
)
_SIZES = {shape.name: shape.sector_size for shape in SECTOR_SHAPES.values()}


def _all_posts() -> tuple[RegisteredPost, ...]:
    unregistered = [name for name in _SIZES if name not in _REGISTERED_SIZES]
    posts = []
    for family, (kind, prefix, suffix, api) in enumerate(_POST_FAMILIES):
        for place, name in enumerate((*_REGISTERED_SIZES, *unregistered)):
            known = place < len(_REGISTERED_SIZES)
            number = family * len(_REGISTERED_SIZES) + place if known else None
            posts.append(RegisteredPost(number, prefix + name + suffix, kind, _SIZES[name], api))
    return tuple(posts)


def _all_seals() -> tuple[RegisteredSeal, ...]:
    names = ((suffix, api, name) for suffix, api in _SEAL_FAMILIES for name in _REGISTERED_SIZES)
    return tuple(
        RegisteredSeal(
            number=number,
            name=f"StackedDrg{name}{suffix}",
            sector_size=_SIZES[name],
            api=api,
            synthetic="Synthetic" in suffix,
            interactive="NonInteractive" not in suffix,
        )
        for number, (suffix, api, name) in enumerate(names)
    )


REGISTERED_POSTS = _all_posts()
REGISTERED_SEALS = _all_seals()
REGISTERED_UPDATES = tuple(
    RegisteredUpdate(number, f"StackedDrg{name}V1", _SIZES[name])
    for number, name in enumerate(_REGISTERED_SIZES)
)


def default_post(kind: PostKind, sector_size: int) -> RegisteredPost:
    """The registered proof of today's network for a circuit: the one of the newest API version."""
    return [p for p in REGISTERED_POSTS if (p.kind, p.sector_size) == (kind, sector_size)][-1]


def default_seal(sector_size: int) -> RegisteredSeal | None:
    """What a C1 output that does not say its own proof type is: V1_1. None for test sizes."""
    seals = (s for s in REGISTERED_SEALS if s.sector_size == sector_size)
    return next((s for s in seals if s.api is ApiVersion.V1_1), None)


def read_post(node: Node, kind: PostKind, sector_size: int) -> RegisteredPost:
    """The registered proof that a name or a number means, which must be of this circuit.

    Raises:
        InputError: There is none, or it is of another kind or sector size.
    """
    found = _find(node, REGISTERED_POSTS, "PoSt")
    if (found.kind, found.sector_size) != (kind, sector_size):
        node.fail(
            f"{found.name} is a {found.kind} PoSt of {found.sector_size} byte sectors,"
            f" the circuit is {kind} of {sector_size}"
        )
    return found


def read_seal(node: Node, sector_size: int) -> RegisteredSeal:
    """The registered seal proof that a name or a number means; otherwise as `read_post`."""
    found = _find(node, REGISTERED_SEALS, "seal")
    _check_size(node, found, "PoRep", sector_size)
    return found


def read_update(node: Node, sector_size: int) -> RegisteredUpdate:
    """The registered update proof that a name or a number means; otherwise as `read_post`."""
    found = _find(node, REGISTERED_UPDATES, "update")
    _check_size(node, found, "update", sector_size)
    return found


class Registered(Protocol):
    """What all registered proofs say of themselves."""

    @property
    def number(self) -> int | None: ...
    @property
    def name(self) -> str: ...
    @property
    def sector_size(self) -> int: ...


_R = TypeVar("_R", bound=Registered)


def _find(node: Node, table: Sequence[_R], what: str) -> _R:
    wanted = node.value
    if isinstance(wanted, str):
        found = next((p for p in table if p.name == wanted), None)
    else:
        number = node.integer(max(p.number for p in table if p.number is not None))
        found = next(p for p in table if p.number == number)
    if found is None:
        near = difflib.get_close_matches(str(wanted)[:100], [p.name for p in table], 1)
        hint = f"; did you mean {near[0]}?" if near else ""
        node.fail(f"{show(wanted)} is no registered {what} proof{hint}")
    return found


def _check_size(node: Node, found: Registered, kind: str, sector_size: int) -> None:
    if found.sector_size != sector_size:
        node.fail(
            f"{found.name} is of {found.sector_size} byte sectors,"
            f" the circuit is {kind} of {sector_size}"
        )
