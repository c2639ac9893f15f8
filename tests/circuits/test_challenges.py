"""Leaf challenges against values of the reference and of a real 32 GiB vanilla proof."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from torchzk.circuits.challenges import challenge_indexes, leaf_challenge
from torchzk.circuits.json_input import parse_json
from torchzk.circuits.registered import ApiVersion
from torchzk.circuits.sectors import SECTOR_SHAPES
from torchzk.circuits.vanilla import sector_from_json


def test_reference_values() -> None:
    leaves = [leaf_challenge(b"\x01" * 32, 77, i, 64) for i in range(10)]
    assert leaves == [62, 13, 30, 16, 21, 30, 30, 34, 28, 40]


def test_real_vanilla_proof(golden: Path) -> None:
    data = json.loads((golden / "window_post_32gib_vanilla.json").read_text())
    shape = SECTOR_SHAPES[32 << 30]
    proof = parse_json(json.dumps(data["proof"]).encode(), "proof")
    sector = sector_from_json(proof, shape.tree_r, 10)
    shown = [sum(d << 3 * i for i, d in enumerate(path.indices)) for path in sector.paths]
    indexes = challenge_indexes(ApiVersion.V1_2, 5, 10)
    randomness = bytes.fromhex(data["randomness"])
    leaves = [leaf_challenge(randomness, sector.sector_id, i, shape.n_nodes) for i in indexes]
    assert leaves == shown
    assert leaves[:2] == [707914199, 439148358]
    assert leaves[-1] == 600088878


@pytest.mark.parametrize(
    ("api", "place", "n", "expected"),
    [
        (ApiVersion.V1_0, 0, 66, range(66)),
        (ApiVersion.V1_0, 3, 10, range(30, 40)),
        (ApiVersion.V1_1, 2349, 10, range(23490, 23500)),
        (ApiVersion.V1_2, 0, 10, range(10)),
        (ApiVersion.V1_2, 2349, 10, range(10)),
    ],
)
def test_indexes(api: ApiVersion, place: int, n: int, expected: range) -> None:
    assert challenge_indexes(api, place, n) == expected
