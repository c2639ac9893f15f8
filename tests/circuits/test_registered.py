"""Names and numbers of the registered proofs."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from torchzk.circuits.json_input import Node
from torchzk.circuits.post_shapes import post_shape
from torchzk.circuits.registered import (
    REGISTERED_POSTS,
    REGISTERED_SEALS,
    REGISTERED_UPDATES,
    ApiVersion,
    PostKind,
    default_post,
    default_seal,
    read_post,
    read_seal,
    read_update,
)
from torchzk.circuits.sectors import SECTOR_SHAPES
from torchzk.errors import InputError

SIZES = {"2KiB": 2048, "8MiB": 8 << 20, "512MiB": 512 << 20, "32GiB": 32 << 30, "64GiB": 64 << 30}


def test_numbers_are_in_the_order_of_the_enum() -> None:
    numbered = {p.number: p for p in REGISTERED_POSTS if p.number is not None}
    assert sorted(numbered) == list(range(15))
    for i, (name, size) in enumerate(SIZES.items()):
        got = [(numbered[i + k].name, numbered[i + k].api.value) for k in (0, 5, 10)]
        assert got == [
            (f"StackedDrgWinning{name}V1", "1.0.0"),
            (f"StackedDrgWindow{name}V1", "1.0.0"),
            (f"StackedDrgWindow{name}V1_2", "1.2.0"),
        ]
        assert {numbered[i + k].sector_size for k in (0, 5, 10)} == {size}


def test_defaults() -> None:
    assert default_post("winning", 2048).number == 0
    assert default_post("window", 32 << 30).name == "StackedDrgWindow32GiBV1_2"
    for size in SECTOR_SHAPES:
        assert default_post("winning", size).api is ApiVersion.V1_0
        assert default_post("window", size).api is ApiVersion.V1_2


def test_name_and_number_mean_the_same() -> None:
    for value in (5, "StackedDrgWindow2KiBV1"):
        assert (
            read_post(Node(value, "job"), "window", 2048)
            is REGISTERED_POSTS[[p.number for p in REGISTERED_POSTS].index(5)]
        )


@pytest.mark.parametrize(
    ("value", "kind", "message"),
    [
        ("StackedDrgWindow2KiBV1_1", "window", "did you mean StackedDrgWindow2KiBV1"),
        ("x" * 100_000, "window", "is no registered PoSt proof"),
        ("", "window", "is no registered PoSt proof"),
        (15, "window", r"must be in 0\.\.14"),
        (-1, "window", r"must be in 0\.\.14"),
        (True, "window", "must be an integer, is true"),
        (10.0, "window", "must be an integer"),
        (None, "window", "must be an integer, is null"),
        (0, "window", "is a winning PoSt of 2048 .* the circuit is window of 2048"),
        (13, "window", "is a window PoSt of 34359738368 .* the circuit is window of 2048"),
        ("StackedDrgWindow2KiBV1_2", "winning", "is a window PoSt of 2048"),
    ],
)
def test_refused(value: object, kind: PostKind, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_post(Node(value, "job"), kind, 2048)


def test_seals_in_the_order_of_the_enum() -> None:
    assert [s.number for s in REGISTERED_SEALS] == list(range(20))
    for i, (name, size) in enumerate(SIZES.items()):
        family = [REGISTERED_SEALS[i + k] for k in (0, 5, 10, 15)]
        assert [(s.name, s.api.value) for s in family] == [
            (f"StackedDrg{name}V1", "1.0.0"),
            (f"StackedDrg{name}V1_1", "1.1.0"),
            (f"StackedDrg{name}V1_1_Feat_SyntheticPoRep", "1.2.0"),
            (f"StackedDrg{name}V1_2_Feat_NonInteractivePoRep", "1.2.0"),
        ]
        assert {s.sector_size for s in family} == {size}
        assert [s.synthetic for s in family] == [False, False, True, False]
        assert [s.interactive for s in family] == [True, True, True, False]
        update = REGISTERED_UPDATES[i]
        assert (update.number, update.name) == (i, f"StackedDrg{name}V1")
        assert update.sector_size == size
        assert default_seal(size) is family[1]
    assert default_seal(4096) is None


def test_seal_and_update_by_name_and_number() -> None:
    for value in (8, "StackedDrg32GiBV1_1"):
        assert read_seal(Node(value, "job"), 32 << 30) is REGISTERED_SEALS[8]
    for value in (3, "StackedDrg32GiBV1"):
        assert read_update(Node(value, "job"), 32 << 30) is REGISTERED_UPDATES[3]


@pytest.mark.parametrize(
    ("read", "value", "message"),
    [
        (read_seal, "StackedDrg2KiBV1_2", "seal proof; did you mean StackedDrg2KiBV1"),
        (read_seal, "StackedDrgWindow2KiBV1", "is no registered seal proof"),
        (read_seal, 20, r"must be in 0\.\.19"),
        (read_seal, True, "must be an integer, is true"),
        (read_seal, 8, "is of 34359738368 byte sectors, the circuit is PoRep of 2048"),
        (read_update, "StackedDrg2KiBV1_1", "update proof; did you mean StackedDrg2KiBV1"),
        (read_update, 5, r"must be in 0\.\.4"),
        (read_update, 1, "is of 8388608 byte sectors, the circuit is update of 2048"),
    ],
)
def test_refused_seals_and_updates(
    read: Callable[[Node, int], object], value: object, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        read(Node(value, "job"), 2048)


@pytest.mark.parametrize(
    ("name", "levels", "sub", "top"),
    [
        ("2KiB", 2, 0, 0),
        ("4KiB", 2, 2, 0),
        ("16KiB", 2, 8, 0),
        ("32KiB", 2, 8, 2),
        ("8MiB", 6, 0, 0),
        ("16MiB", 6, 2, 0),
        ("512MiB", 8, 0, 0),
        ("1GiB", 8, 2, 0),
        ("32GiB", 9, 8, 0),
        ("64GiB", 9, 8, 2),
    ],
)
def test_trees(name: str, levels: int, sub: int, top: int) -> None:
    (shape,) = (s for s in SECTOR_SHAPES.values() if s.name == name)
    tree = shape.tree_r
    assert (tree.base_levels, tree.sub, tree.top) == (levels, sub, top)
    product = 1
    for arity in tree.arities:
        product *= arity
    assert product == shape.n_nodes == shape.sector_size // 32


def test_partitions() -> None:
    got = [post_shape("window", size).n_slots for size in SIZES.values()]
    assert got == [2, 2, 2, 2349, 2300]
    for size in SECTOR_SHAPES:
        winning, window = post_shape("winning", size), post_shape("window", size)
        assert (winning.n_slots, winning.n_challenges) == (66, 1)
        assert (winning.sectors_per_partition, winning.challenges_per_sector) == (1, 66)
        assert window.sectors_per_partition == window.n_slots
        assert window.challenges_per_sector == window.n_challenges == 10
