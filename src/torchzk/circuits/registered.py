"""Registered PoSt proofs: the names and numbers Filecoin gives a circuit and its API version.

Source: spec/post_update.md section 1; the five sizes in the enum's order.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from enum import Enum
from typing import Literal

from torchzk.circuits.json_input import Node, show
from torchzk.circuits.sectors import SECTOR_SHAPES

PostKind = Literal["winning", "window"]


class ApiVersion(Enum):
    """The version of the proofs API. PoSt versions differ in their challenge indexes alone."""

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


_REGISTERED_SIZES = ("2KiB", "8MiB", "512MiB", "32GiB", "64GiB")
_FAMILIES: tuple[tuple[PostKind, str, str, ApiVersion], ...] = (
    ("winning", "StackedDrgWinning", "V1", ApiVersion.V1_0),
    ("window", "StackedDrgWindow", "V1", ApiVersion.V1_0),
    ("window", "StackedDrgWindow", "V1_2", ApiVersion.V1_2),
)


def _all_posts() -> tuple[RegisteredPost, ...]:
    sizes = {shape.name: shape.sector_size for shape in SECTOR_SHAPES.values()}
    unregistered = [name for name in sizes if name not in _REGISTERED_SIZES]
    posts = []
    for family, (kind, prefix, suffix, api) in enumerate(_FAMILIES):
        for place, name in enumerate((*_REGISTERED_SIZES, *unregistered)):
            known = place < len(_REGISTERED_SIZES)
            number = family * len(_REGISTERED_SIZES) + place if known else None
            posts.append(RegisteredPost(number, prefix + name + suffix, kind, sizes[name], api))
    return tuple(posts)


REGISTERED_POSTS = _all_posts()


def default_post(kind: PostKind, sector_size: int) -> RegisteredPost:
    """The registered proof of today's network for a circuit: the one of the newest API version."""
    return [p for p in REGISTERED_POSTS if (p.kind, p.sector_size) == (kind, sector_size)][-1]


def read_post(node: Node, kind: PostKind, sector_size: int) -> RegisteredPost:
    """The registered proof that a name or a number means, which must be of this circuit.

    Raises:
        InputError: There is none, or it is of another kind or sector size.
    """
    wanted = node.value
    if isinstance(wanted, str):
        found = next((p for p in REGISTERED_POSTS if p.name == wanted), None)
    else:
        number = node.integer(0, len(_FAMILIES) * len(_REGISTERED_SIZES) - 1)
        found = next(p for p in REGISTERED_POSTS if p.number == number)
    if found is None:
        names = [p.name for p in REGISTERED_POSTS]
        near = difflib.get_close_matches(str(wanted)[:100], names, 1)
        hint = f"; did you mean {near[0]}?" if near else ""
        node.fail(f"{show(wanted)} is no registered PoSt proof{hint}")
    if (found.kind, found.sector_size) != (kind, sector_size):
        node.fail(
            f"{found.name} is a {found.kind} PoSt of {found.sector_size} byte sectors,"
            f" the circuit is {kind} of {sector_size}"
        )
    return found
