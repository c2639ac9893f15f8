"""Labels of whole small graphs: last labels known to rust-fil-proofs, layers it sealed."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest

from torchzk.circuits.labels import hashed, label
from torchzk.circuits.parents import parents
from torchzk.circuits.porep_shapes import DRG_PARENTS
from torchzk.circuits.registered import REGISTERED_SEALS, ApiVersion
from torchzk.circuits.replica_id import porep_id


def layers_of(
    replica: bytes, identity: bytes, api: ApiVersion, n_nodes: int, n_layers: int
) -> list[list[bytes]]:
    rows = parents(np.arange(n_nodes), identity, api, n_nodes).tolist()
    layers: list[list[bytes]] = []
    for layer in range(1, n_layers + 1):
        current: list[bytes] = []
        for node, row in enumerate(rows):
            found = [current[p] for p in row[:DRG_PARENTS]] if node else []
            if layers and node:
                found += [layers[-1][p] for p in row[DRG_PARENTS:]]
            current.append(label(replica, layer, node, found))
        layers.append(current)
    return layers


@pytest.mark.parametrize(
    ("n_nodes", "identity", "api", "words"),
    [
        (64, 0, "1.0.0", "d3faa96b9a0fba04 ea81a283d106485e e3d51b9afa5ac2b3 0462f4f4f1a68d37"),
        (128, 0, "1.0.0", "7e191e52c4a8da86 5ae8a1c9e6fac148 ce239f3b88a894b8 234c00d1dc1d53be"),
        (64, 123, "1.1.0", "abb3f38bb70defcf 777a2e4d7769119f 3448959d495490bc 06021188c7a71cb5"),
        (64, 123, "1.2.0", "abb3f38bb70defcf 777a2e4d7769119f 3448959d495490bc 06021188c7a71cb5"),
        (128, 123, "1.1.0", "22ab81cf68c4676d 7a77a82fc7c9c189 c6c03d32c1e42d23 0f777c18cc2c55bd"),
    ],
)
def test_last_labels(n_nodes: int, identity: int, api: str, words: str) -> None:
    """Eleven layers; values of rust-fil-proofs, four little-endian words (spec/vectors.md)."""
    layers = layers_of(bytes([9]) * 32, bytes([identity]) * 32, ApiVersion(api), n_nodes, 11)
    expected = b"".join(int(word, 16).to_bytes(8, "little") for word in words.split())
    assert layers[-1][-1] == expected


def test_layers_of_a_sealed_sector(golden: Path) -> None:
    """The two files of layers that the reference left in the cache folder of a 2 KiB sector."""
    vectors = json.loads((golden / "porep_graph.json").read_text())
    (sector,) = (s for s in vectors["sectors"] if s["name"] == "sector2k_a")
    registered = REGISTERED_SEALS[5]
    assert registered.name == sector["registered_proof"]
    layers = layers_of(
        bytes.fromhex(sector["replica_id"]), porep_id(registered), registered.api, 64, 2
    )
    digests = [hashlib.sha256(b"".join(layer)).hexdigest() for layer in layers]
    assert digests == sector["layer_sha256"]


def test_parents_are_repeated() -> None:
    names = [bytes([i]) * 32 for i in range(14)]
    assert hashed(5, names[:6]) == names[:6] * 6 + names[:1]
    assert hashed(5, names) == names * 2 + names[:9]
    assert hashed(0, names) == []
