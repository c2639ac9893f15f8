"""Merkle trees of which few leaves differ from the rest: only their paths are hashed.

All other nodes of a level have one value, so a tree of 2^31 leaves costs what its paths cost.
Source: spec/synthetic.md; shapes and hashes of spec/porep.md sections 1 and 6.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from torchzk.backends import Backend
from torchzk.circuits.elements import from_planes, octets_of, to_planes
from torchzk.circuits.layouts import ELEMENT_BYTES
from torchzk.circuits.part_paths import data_node
from torchzk.circuits.vanilla import MerkleProof
from torchzk.params.poseidon import Poseidon

ZERO = bytes(ELEMENT_BYTES)


@dataclass(frozen=True)
class Level:
    """The nodes of one level: some by their index, and what all others are."""

    nodes: Mapping[int, bytes]
    default: bytes

    def __getitem__(self, index: int) -> bytes:
        return self.nodes.get(index, self.default)


@dataclass(frozen=True)
class SparseTree:
    """A tree by its levels, the leaves first, the root last."""

    arities: tuple[int, ...]
    """Of each level, from the leaves upwards."""
    levels: tuple[Level, ...]

    @property
    def root(self) -> bytes:
        """32 bytes."""
        return self.levels[-1][0]

    def proof(self, index: int) -> MerkleProof:
        """The Merkle proof of the leaf `index`."""
        leaf = self.levels[0][index]
        siblings, places = [], []
        for level, arity in zip(self.levels, self.arities, strict=False):
            above, place = divmod(index, arity)
            first = above * arity
            siblings += [level[i] for i in range(first, first + arity) if i != index]
            places.append(place)
            index = above
        return MerkleProof(leaf, self.root, b"".join(siblings), bytes(places))


def zero_data_tree(n_levels: int) -> SparseTree:
    """TreeD, binary with SHA-256, over 2^n_levels nodes of zeros."""
    values = [ZERO]
    for _ in range(n_levels):
        values.append(data_node(values[-1], values[-1]))
    return SparseTree((2,) * n_levels, tuple(Level({}, value) for value in values))


def poseidon_tree(
    backend: Backend, device: torch.device, arities: Sequence[int], leaves: Mapping[int, bytes]
) -> SparseTree:
    """A tree with Poseidon whose other leaves are zero.

    Args:
        backend: Hashes a level at once.
        device: Where it does.
        arities: Of each level, from the leaves upwards.
        leaves: Canonical little-endian Fr of 32 bytes by index.
    """
    places = np.array(sorted(leaves), dtype=np.int64)
    values = [*(leaves[i] for i in places.tolist()), ZERO]
    levels = [_level(places, values)]
    # the last one is that of all other places
    nodes = to_planes(backend, device, octets_of(values))
    for arity in arities:
        above = np.unique(places // arity)
        children = above[:, None] * arity + np.arange(arity)
        column = np.searchsorted(places, children)
        # no child is -1
        column[np.append(places, -1)[column] != children] = len(places)
        column = np.concatenate((column, np.full((1, arity), len(places))))
        gathered = nodes[:, torch.tensor(column.T, device=device)]
        nodes = backend.poseidon(gathered, Poseidon.merkle(arity))
        places = above
        levels.append(_level(places, from_planes(backend, nodes)))
    return SparseTree(tuple(arities), tuple(levels))


def _level(places: np.typing.NDArray[np.int64], values: Sequence[bytes]) -> Level:
    return Level(dict(zip(places.tolist(), values, strict=False)), values[-1])
