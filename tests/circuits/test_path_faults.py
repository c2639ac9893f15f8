"""Which level of a damaged Merkle path is blamed: small trees, sums for hashes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from torchzk.circuits.path_faults import ComputedPath, describe_fault
from torchzk.errors import ResourceError

LEVELS = 5


def node(level: int, place: int) -> int:
    """A binary tree over the leaves 0..31, leaf i worth hash(i); its nodes are hashes too."""
    if level == 0:
        return hash((0, place + 1))
    return hash((node(level - 1, 2 * place), node(level - 1, 2 * place + 1)))


def path(leaf: int, damaged: int | None = None) -> ComputedPath:
    """The path of a leaf, the sibling at level `damaged` replaced; -1 replaces the leaf."""
    places = [leaf >> level for level in range(LEVELS)]
    siblings = [node(level, place ^ 1) for level, place in enumerate(places)]
    running = [node(0, leaf) if damaged != -1 else 99]
    if damaged is not None and damaged >= 0:
        siblings[damaged] = 99
    for place, sibling in zip(places, siblings, strict=True):
        pair = (sibling, running[-1]) if place & 1 else (running[-1], sibling)
        running.append(hash(pair))
    indices = tuple(place & 1 for place in places)
    return ComputedPath(indices, tuple((x,) for x in siblings), tuple(running))


def blame(damaged: int, others: list[int]) -> str:
    paths = [path(0, damaged), *map(path, others)]
    return describe_fault(paths, 0, node(LEVELS, 0))


@pytest.mark.parametrize(
    ("damaged", "others", "expected"),
    [
        # leaf 1 shares every sibling but the first, which is itself
        (0, [1], "level 0: sibling 0"),
        (1, [1], "level 1: sibling 0"),
        (4, [1], "level 4: sibling 0"),
        (-1, [1], "level 0: the leaf"),
        # leaf 2 knows the node above level 0, so what is wrong below is level 0
        (0, [2], "level 0: the node and its siblings do not hash"),
        (-1, [2], "level 0: the node and its siblings do not hash"),
        (1, [2], "level 1: sibling 0"),
        # leaf 31 knows the top alone
        (3, [31], "levels 0 to 3: "),
        (0, [31], "levels 0 to 3: "),
        (4, [31], "level 4: sibling 0"),
        # leaves 31 and 4: a node at level 2 is confirmed, the one at level 4 is not
        (2, [31, 4], "level 2: sibling 0"),
        (1, [31, 4], "levels 0 to 1: "),
        # nobody knows anything but the root
        (2, [], "levels 0 to 4: "),
    ],
)
def test_level(damaged: int, others: list[int], expected: str) -> None:
    assert blame(damaged, others).startswith(expected)


def test_confirmed_node_bounds_from_below() -> None:
    """Leaf 4's path meets leaf 0's at level 3 and shows the same sibling there, so the hash is it.

    Such a path reaches the root by no honest hash; only its shape matters here.
    """
    good = path(4)
    witness = replace(good, siblings=(*good.siblings[:3], (99,), good.siblings[4]))
    assert describe_fault([path(0, 3), witness], 0, node(LEVELS, 0)).startswith(
        "level 3: the node and its siblings do not hash"
    )


def test_paths_that_fail_too_are_no_witnesses() -> None:
    paths = [path(0, 1), path(1, 4), path(2)]
    assert describe_fault(paths, 0, node(LEVELS, 0)).startswith("level 1: sibling 0")
    assert describe_fault(paths, 1, node(LEVELS, 0)).startswith("level 4: sibling 0")
    assert describe_fault(paths[:2], 0, node(LEVELS, 0)).startswith("levels 0 to 4: ")


def test_a_sound_path_has_no_fault() -> None:
    with pytest.raises(ResourceError, match="wrong once, and right"):
        describe_fault([path(3)], 0, node(LEVELS, 0))
