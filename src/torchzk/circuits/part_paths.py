"""Merkle paths among the flat values of a layout, on the host: places, hashes, faults."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from torchzk.circuits.layouts import ELEMENT_BYTES, VARIANTS, Integers, Octets, Template
from torchzk.circuits.path_faults import ComputedPath, siblings_by_level
from torchzk.circuits.replica_id import clear_top_bits


@dataclass(frozen=True)
class MerklePart:
    """A Merkle proof. Levels run from the leaf upwards."""

    name: str
    """Dotted, without the enum around it."""
    leaf: int
    root: int
    siblings: slice
    """Elements, level by level."""
    indices: slice
    """Integers: a place a level."""


def merkle_part(known: Template, name: str) -> MerklePart:
    """Where the Merkle proof called `name` is."""
    variant = next(v for v in VARIANTS if f"{name}.data.{v}" in known.parts)
    body = f"{name}.data.{variant}"
    inside = known.parts[body]
    leaf, root = (known.parts[f"{body}.{x}"].elements.start for x in ("leaf", "root"))
    # root and leaf stand before the path or behind it
    first, last = inside.elements.start, inside.elements.stop
    siblings = slice(first + 2, last) if variant == VARIANTS[0] else slice(first, last - 2)
    return MerklePart(name, leaf, root, siblings, inside.integers)


def put_places(out: Integers, path: MerklePart, leaves: Integers, arities: Sequence[int]) -> None:
    """Write into integers `[n, m]` the places that a path from each of `n` leaves has."""
    for k, arity in enumerate(arities, start=path.indices.start):
        leaves, out[:, k] = np.divmod(leaves, arity)


def level_of(k: int, paths: Iterable[MerklePart]) -> tuple[MerklePart, int] | None:
    """The path that integer `k` belongs to, and its level there."""
    for path in paths:
        if path.indices.start <= k < path.indices.stop:
            return path, k - path.indices.start
    return None


def data_nodes(elements: Octets, integers: Integers, path: MerklePart) -> list[bytes]:
    """The running node of a path in TreeD, hashed: the leaf first, the root last.

    Args:
        elements: uint8 `[n, 32]`
        integers: int64 `[m]`
        path: Where among them the path is.
    """
    nodes = [elements[path.leaf].tobytes()]
    siblings = elements[path.siblings].tobytes()
    for level, index in enumerate(integers[path.indices].tolist()):
        sibling = siblings[ELEMENT_BYTES * level : ELEMENT_BYTES * (level + 1)]
        nodes.append(data_node(*((sibling, nodes[-1]) if index else (nodes[-1], sibling))))
    return nodes


def data_node(left: bytes, right: bytes) -> bytes:
    """A node of TreeD from its children. Source: spec/porep.md section 6."""
    return clear_top_bits(hashlib.sha256(left + right).digest())


def computed_path(
    elements: Octets,
    integers: Integers,
    path: MerklePart,
    arities: Sequence[int],
    nodes: Iterable[int],
) -> ComputedPath:
    """A path with its nodes, for the search of a fault."""
    return ComputedPath(
        indices=tuple(integers[path.indices].tolist()),
        siblings=siblings_by_level(elements[path.siblings].tobytes(), arities),
        nodes=tuple(nodes),
    )


def computed_data_path(elements: Octets, integers: Integers, path: MerklePart) -> ComputedPath:
    """The same of a path in TreeD, whose nodes it hashes."""
    nodes = [int.from_bytes(x, "little") for x in data_nodes(elements, integers, path)]
    return computed_path(elements, integers, path, (2,) * (len(nodes) - 1), nodes)
