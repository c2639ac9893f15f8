"""Parents of nodes against those of whole official graphs and of an independent model."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from torchzk.circuits.chacha import chacha_blocks
from torchzk.circuits.parents import parents
from torchzk.circuits.registered import REGISTERED_SEALS, ApiVersion
from torchzk.circuits.replica_id import porep_id
from torchzk.errors import LayoutError


def test_chacha20_of_the_rfc() -> None:
    """RFC 8439, section 2.3.2; the second lane has another counter."""
    key = np.frombuffer(bytes(range(32)), dtype="<u4")[:, None]
    tail = bytes.fromhex("01000000 000000090000004a00000000")
    first = np.frombuffer(tail, dtype="<u4")
    blocks = chacha_blocks(key, np.stack((first, first + 1), axis=1), 20)
    expected = (
        "10f1e7e4d13b5915500fdd1fa32071c4c7d1f4c733c068030422aa9ac3d46c4e"
        "d2826446079faa0914c2d705d98b02a2b5129cd1de164eb9cbd083e8a2503c4e"
    )
    assert blocks[:, 0].astype("<u4").tobytes().hex() == expected
    assert (blocks[:, 0] != blocks[:, 1]).all()


def test_single_nodes(porep_graph: dict[str, Any]) -> None:
    assert len(porep_graph["parents"]) == 46
    for vector in porep_graph["parents"]:
        registered = REGISTERED_SEALS[vector["registered_proof_id"]]
        got = parents([vector["node"]], porep_id(registered), registered.api, vector["nodes"])
        assert got.tolist() == [vector["drg"] + vector["exp"]], vector


@pytest.mark.parametrize("number", [0, 5, 1, 6])
def test_whole_graphs(number: int, porep_graph: dict[str, Any]) -> None:
    registered = REGISTERED_SEALS[number]
    n_nodes = registered.sector_size // 32
    graph = parents(np.arange(n_nodes), porep_id(registered), registered.api, n_nodes)
    digest = hashlib.sha256(graph.astype("<u4").tobytes()).hexdigest()
    assert digest == porep_graph["graph_sha256"][str(number)]
    nodes = np.arange(n_nodes)[:, None]
    # labels can be computed in order
    assert (graph[2:, :6] < nodes[2:]).all() and (graph[:2, :6] == 0).all()
    assert (graph >= 0).all() and (graph < n_nodes).all()
    # every node is the expander parent of eight
    assert (np.bincount(graph[:, 6:].ravel(), minlength=n_nodes) == 8).all()


@pytest.mark.full("a minute a graph")
@pytest.mark.parametrize("number", [2, 7])
def test_whole_graphs_of_512_mib(number: int, porep_graph: dict[str, Any]) -> None:
    registered = REGISTERED_SEALS[number]
    n_nodes = registered.sector_size // 32
    digest = hashlib.sha256()
    for i in range(0, n_nodes, 1 << 18):
        nodes = np.arange(i, i + (1 << 18))
        piece = parents(nodes, porep_id(registered), registered.api, n_nodes)
        digest.update(piece.astype("<u4").tobytes())
    assert digest.hexdigest() == porep_graph["graph_sha256"][str(number)]


def test_a_real_sector_of_32_gib(golden: Path) -> None:
    """180 challenges of a sector of the main network, public inputs of proofs that verify."""
    raw = (golden / "groth16" / "porep_32gib_v27_seal32_x10.prf").read_bytes()
    n_proofs, n_inputs = (int.from_bytes(raw[i : i + 8], "big") for i in (0, 8))
    assert (n_proofs, n_inputs) == (10, 327)
    size = 192 + 32 * n_inputs
    registered = REGISTERED_SEALS[3]
    for proof in range(n_proofs):
        start = len(raw) - (n_proofs - proof) * size + 192
        values = [
            int.from_bytes(raw[i : i + 32], "big") for i in range(start, start + 32 * 327, 32)
        ]
        groups = [values[i : i + 18] for i in range(3, 327, 18)]
        rows = parents([g[0] for g in groups], porep_id(registered), registered.api, 1 << 30)
        assert [group[1:15] for group in groups] == rows.tolist()


def test_old_graphs_of_large_sectors_are_cut_to_32_bits() -> None:
    n_nodes = 1 << 30
    nodes = np.arange(10_000, 10_200)
    old = parents(nodes, bytes(32), ApiVersion.V1_0, n_nodes)
    new = parents(nodes, bytes(32), ApiVersion.V1_1, n_nodes)
    assert (old[:, 5] == nodes - 1).all() and (new[:, 0] == nodes - 1).all()
    assert (old[:, :5] == new[:, 1:6]).all()
    assert (old[:, 6:] == new[:, 6:] % (1 << 29)).all()
    assert (new[:, 6:] >= 1 << 29).any()


def test_the_order_of_nodes_is_kept_and_none_is_an_answer() -> None:
    nodes = [63, 0, 2, 1, 63]
    whole = parents(range(64), bytes(32), ApiVersion.V1_2, 64)
    assert (parents(nodes, bytes(32), ApiVersion.V1_2, 64) == whole[nodes]).all()
    assert parents([], bytes(32), ApiVersion.V1_2, 64).shape == (0, 14)


@pytest.mark.parametrize(
    ("nodes", "identity", "n_nodes", "message"),
    [
        ([64], bytes(32), 64, r"integers in \[0, 64\)"),
        ([-1], bytes(32), 64, r"integers in \[0, 64\)"),
        ([[1]], bytes(32), 64, "list of integers"),
        ([1], bytes(31), 64, "an id of 31 bytes"),
        ([1], bytes(32), 96, "no graph of 96 nodes"),
    ],
)
def test_refused(nodes: Any, identity: bytes, n_nodes: int, message: str) -> None:
    with pytest.raises(LayoutError, match=message):
        parents(nodes, identity, ApiVersion.V1_1, n_nodes)
