"""Sectors nobody sealed: real where a PoRep looks, empty elsewhere. For tests and benchmarks only.

The data is zero. Labels are real at challenged nodes and pseudo-random at their parents; every
other leaf of TreeC and TreeR is zero. Proofs over such a sector verify, but it stores nothing.
Source: spec/synthetic.md.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch

from torchzk.backends import Backend
from torchzk.circuits.elements import from_planes, octets_of, to_planes
from torchzk.circuits.labels import label, parent_rows
from torchzk.circuits.miner_id import prover_id
from torchzk.circuits.parents import parents
from torchzk.circuits.porep_shapes import StackedShape, porep_shape
from torchzk.circuits.registered import RegisteredSeal
from torchzk.circuits.replica_id import clear_top_bits, porep_id, replica_commitment, replica_id
from torchzk.circuits.seal_challenges import seal_challenges
from torchzk.circuits.sparse_tree import SparseTree, poseidon_tree, zero_data_tree
from torchzk.errors import ConfigError
from torchzk.params.poseidon import Poseidon
from torchzk.timeline import Timeline

Columns = Mapping[int, tuple[bytes, ...]]


@dataclass(frozen=True)
class SectorName:
    """What a synthetic sector is made from; everything else follows."""

    name: str
    """ASCII text; ticket, seed and PoSt randomness are hashes of it."""
    registered: RegisteredSeal
    sector_id: int
    """Below 2^64."""
    miner_id: int
    """Below 2^64."""

    def __post_init__(self) -> None:
        if not self.name.isascii():
            raise ConfigError(
                f"the name of a synthetic sector is ASCII text, got {self.name!a:.80}"
            )
        if not self.registered.by_seed_alone:
            raise ConfigError(
                f"{self.registered.name}: its challenges depend on comm_r, and comm_r of a "
                "synthetic sector on its challenges"
            )

    def drawn(self, purpose: str) -> bytes:
        """32 bytes that follow from the name, a canonical Fr: B of the specification."""
        return clear_top_bits(hashlib.sha256((self.name + purpose).encode("ascii")).digest())


@dataclass(frozen=True)
class SyntheticSector:
    """A sector as far as anybody can ask about it."""

    of: SectorName
    shape: StackedShape
    ticket: bytes
    seed: bytes
    replica_id: bytes
    comm_r: bytes
    challenges: tuple[tuple[int, ...], ...]
    """Of the PoRep, a partition each."""
    parents: Mapping[int, tuple[int, ...]]
    """14 of each challenged node."""
    columns: Columns
    """Labels of each touched node, layer 1 first."""
    tree_d: SparseTree
    tree_c: SparseTree
    tree_r: SparseTree


def make_sector(
    of: SectorName, backend: Backend, device: torch.device, timeline: Timeline
) -> SyntheticSector:
    """Make a synthetic sector.

    Args:
        of: What it is made from.
        backend: Hashes columns and trees.
        device: Where it does.
        timeline: Gets a span a stage.
    """
    registered = of.registered
    shape = porep_shape(registered.sector_size)
    ticket, seed = of.drawn(" ticket"), of.drawn(" seed")
    tree_d = zero_data_tree(shape.data_levels)
    graph = porep_id(registered)
    replica = replica_id(prover_id(of.miner_id), of.sector_id, ticket, tree_d.root, graph)
    with timeline.span("challenges"):
        challenges = tuple(
            # comm_r is not known yet, and not asked for by interactive challenges
            tuple(
                seal_challenges(
                    registered, k, shape.n_challenges, replica_id=replica, comm_r=b"", seed=seed
                )
            )
            for k in range(shape.n_partitions)
        )
        challenged = sorted({node for partition in challenges for node in partition})
        rows = parents(challenged, graph, registered.api, shape.sector.n_nodes)
        edges = dict(zip(challenged, map(tuple, rows.tolist()), strict=True))
    with timeline.span("labels"):
        columns = _columns(replica, shape.layers, edges)
    with timeline.span("TreeC"):
        hashes = _column_hashes(columns, backend, device)
        tree_c = poseidon_tree(backend, device, shape.arities, hashes)
    with timeline.span("TreeR"):
        replica_nodes = {node: columns[node][-1] for node in challenged}
        tree_r = poseidon_tree(backend, device, shape.arities, replica_nodes)
    return SyntheticSector(
        of=of,
        shape=shape,
        ticket=ticket,
        seed=seed,
        replica_id=replica,
        comm_r=replica_commitment(tree_c.root, tree_r.root),
        challenges=challenges,
        parents=edges,
        columns=columns,
        tree_d=tree_d,
        tree_c=tree_c,
        tree_r=tree_r,
    )


def _columns(replica: bytes, layers: int, edges: Mapping[int, tuple[int, ...]]) -> Columns:
    """Labels of the challenged nodes, the keys of `edges` in ascending order, and of parents."""
    touched = np.unique([*edges, *(node for row in edges.values() for node in row)]).tolist()
    columns: dict[int, list[bytes]] = {node: [] for node in touched}
    for layer in range(1, layers + 1):
        for node in touched:
            if node not in edges:
                columns[node].append(_invented_label(replica, layer, node))
        # DRG parents are smaller, and have their label of this layer by now
        for node, row in edges.items():
            labels = [columns[row[i]][k] for i, k in parent_rows(layer)]
            columns[node].append(label(replica, layer, node, labels))
    return {node: tuple(rows) for node, rows in columns.items()}


def _invented_label(replica: bytes, layer: int, node: int) -> bytes:
    message = replica + layer.to_bytes(4, "big") + node.to_bytes(8, "big")
    return clear_top_bits(hashlib.sha256(b"torchzk synthetic label" + message).digest())


def _column_hashes(columns: Columns, backend: Backend, device: torch.device) -> dict[int, bytes]:
    octets = octets_of([row for column in columns.values() for row in column])
    rows = to_planes(backend, device, octets)
    arity = len(next(iter(columns.values())))
    batch = rows.view(rows.shape[0], len(columns), arity).transpose(1, 2).contiguous()
    hashes = from_planes(backend, backend.poseidon(batch, Poseidon.merkle(arity)))
    return dict(zip(columns, hashes, strict=True))
