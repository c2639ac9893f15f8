"""Where a Merkle path that misses its root goes wrong, as far as the tree's other paths tell.

The paths that do reach the root are authentic, so every node they show is known. The lowest level
at which the bad path contradicts a known node bounds the fault from above, the highest at which
its running node is confirmed bounds it from below.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from torchzk.circuits.layouts import ELEMENT_BYTES
from torchzk.errors import ResourceError

Position = tuple[int, ...]
"""A node of the tree: the indices of its path from its own level up to the root."""


@dataclass(frozen=True)
class ComputedPath:
    """A path with its hashes. Levels from the leaf upwards; elements in any one form."""

    indices: tuple[int, ...]
    siblings: tuple[tuple[int, ...], ...]
    """`arity - 1` elements a level."""
    nodes: tuple[int, ...]
    """The running node below each level, then the computed root."""

    def neighbours(self, level: int) -> Iterator[tuple[Position, int]]:
        """Position and value of each sibling at `level`."""
        own, above = self.indices[level], self.indices[level + 1 :]
        for i, value in enumerate(self.siblings[level]):
            yield (i + (i >= own), *above), value


def siblings_by_level(raw: bytes, arities: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    """Siblings of a path, in 32 little-endian bytes each, as `ComputedPath` has them."""
    starts = range(0, len(raw), ELEMENT_BYTES)
    values = [int.from_bytes(raw[i : i + ELEMENT_BYTES], "little") for i in starts]
    ends = list(accumulate(arity - 1 for arity in arities))
    return tuple(tuple(values[start:end]) for start, end in pairwise((0, *ends)))


def describe_fault(paths: Sequence[ComputedPath], bad: int, root: int) -> str:
    """Level and kind of the fault of path `bad`, which does not reach `root`.

    Args:
        paths: All paths into one tree.
        bad: Index of a path whose last node is not `root`.
        root: The root all paths should reach.

    Raises:
        ResourceError: It does reach it, so whoever found that it does not was wrong.
    """
    known: dict[Position, int] = {(): root}
    for path in paths:
        if path.nodes[-1] == root:
            for level, node in enumerate(path.nodes):
                known[path.indices[level:]] = node
            for level in range(len(path.indices)):
                known.update(path.neighbours(level))
    return _compare(paths[bad], known)


def _compare(path: ComputedPath, known: dict[Position, int]) -> str:
    confirmed = 0
    for level, node in enumerate(path.nodes):
        position = path.indices[level:]
        if known.get(position, node) != node:
            return _between(confirmed, level)
        if position in known:
            confirmed = level
        if level == len(path.indices):
            break
        for i, (place, value) in enumerate(path.neighbours(level)):
            if known.get(place, value) != value:
                return f"level {level}: sibling {i} of the Merkle path differs from other paths"
    raise ResourceError(
        "the hashes of a Merkle path were wrong once, and right when they were made again: the"
        " device does not compute right; see what torchzk.doctor says of it"
    )


def _between(low: int, high: int) -> str:
    """The fault is a hash of levels [low, high), or the leaf itself if high is 0."""
    if high == 0:
        return "level 0: the leaf of the Merkle path differs from other paths"
    if high == low + 1:
        return f"level {low}: the node and its siblings do not hash to the node above"
    return (
        f"levels {low} to {high - 1}: the Merkle path does not hash to the node above them, and"
        " no sound path of the sector passes between"
    )
