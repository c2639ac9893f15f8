"""Challenges of sector updates. Values of rust-fil-proofs (spec/vectors.md)."""

from __future__ import annotations

import json
from pathlib import Path

from torchzk.circuits.update_challenges import update_challenges
from torchzk.circuits.update_shapes import update_shape


def test_first_challenges(golden: Path) -> None:
    vector = json.loads((golden / "synthetic.json").read_text())["update_challenges"]
    comm_r_new = int(vector["comm_r_new"], 16)
    assert len(vector["first"]) == 8
    for size, partitions in vector["first"].items():
        shape = update_shape(int(size))
        for partition, first in partitions.items():
            got = update_challenges(shape, comm_r_new, int(partition))
            assert got[:5] == first, (size, partition)
            assert len(got) == shape.n_challenges
            assert {node >> shape.challenge_bits for node in got} == {int(partition)}
