"""A 2 KiB sector sealed here, as each of the four families of registered proofs."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import pytest
import torch

from torchzk.backends import Backend
from torchzk.circuits.c1_file import read_c1
from torchzk.circuits.labels import label
from torchzk.circuits.miner_id import prover_id
from torchzk.circuits.parents import parents
from torchzk.circuits.porep_nodes import porep_public_inputs
from torchzk.circuits.porep_shapes import DRG_PARENTS, porep_shape
from torchzk.circuits.porep_vanilla import check_porep
from torchzk.circuits.registered import REGISTERED_SEALS, RegisteredSeal
from torchzk.circuits.replica_id import porep_id, replica_id
from torchzk.circuits.seal_challenges import seal_challenges
from torchzk.circuits.sparse_tree import SparseTree, poseidon_tree, zero_data_tree
from torchzk.circuits.synthetic import SectorName, SyntheticSector
from torchzk.circuits.synthetic_jobs import job_text
from torchzk.errors import InputError
from torchzk.params.fields import FR
from torchzk.params.poseidon import Poseidon

FAMILIES = [seal for seal in REGISTERED_SEALS if seal.sector_size == 2048]
SHAPE = porep_shape(2048)
N = SHAPE.sector.n_nodes


def number(raw: bytes) -> int:
    return int.from_bytes(raw, "little")


def seal(registered: RegisteredSeal, backend: Backend, device: torch.device) -> SyntheticSector:
    """All of a sector whose data is zero: every label of it is real."""
    drawn = random.Random(registered.number)
    ticket, seed = drawn.randbytes(32), drawn.randbytes(32)
    tree_d = zero_data_tree(SHAPE.data_levels)
    graph = porep_id(registered)
    replica = replica_id(prover_id(1000), 7, ticket, tree_d.root, graph)
    edges = parents(range(N), graph, registered.api, N).tolist()
    first: list[bytes] = []
    second: list[bytes] = []
    for node, row in enumerate(edges):
        drg = row[:DRG_PARENTS]
        first.append(label(replica, 1, node, [first[p] for p in drg] if node else []))
    for node, row in enumerate(edges):
        above = [second[p] for p in row[:DRG_PARENTS]] if node else []
        second.append(label(replica, 2, node, above + [first[p] for p in row[DRG_PARENTS:]]))
    columns = dict(enumerate(zip(first, second, strict=True)))
    hashes = {
        node: Poseidon.merkle(2).digest([number(x) for x in rows]).to_bytes(32, "little")
        for node, rows in columns.items()
    }
    trees: list[SparseTree] = [
        poseidon_tree(backend, device, SHAPE.arities, leaves)
        for leaves in (hashes, dict(enumerate(second)))
    ]
    comm_r = Poseidon.merkle(2).digest([number(tree.root) for tree in trees])
    raw = comm_r.to_bytes(32, "little")
    count = SHAPE.n_partitions if registered.interactive else SHAPE.ni_partitions
    challenges = tuple(
        tuple(seal_challenges(registered, k, 2, replica_id=replica, comm_r=raw, seed=seed))
        for k in range(count)
    )
    return SyntheticSector(
        # a synthetic sector's name refuses challenges that depend on comm_r
        of=cast(SectorName, SimpleNamespace(registered=registered, sector_id=7, miner_id=1000)),
        shape=SHAPE,
        ticket=ticket,
        seed=seed,
        replica_id=replica,
        comm_r=raw,
        challenges=challenges,
        parents={node: tuple(row) for node, row in enumerate(edges)},
        columns=columns,
        tree_d=tree_d,
        tree_c=trees[0],
        tree_r=trees[1],
    )


@pytest.mark.parametrize("registered", FAMILIES, ids=lambda x: x.name)
def test_family(backend: Backend, device: torch.device, registered: RegisteredSeal) -> None:
    sector = seal(registered, backend, device)
    text = "".join(job_text(sector, "porep")).encode()
    c1 = read_c1(text, SHAPE)
    assert c1.registered == registered and c1.n_partitions == len(sector.challenges)
    check_porep(backend, device, c1, miner_id=1000, sector_number=7)
    last = c1.n_partitions - 1
    inputs = porep_public_inputs(c1, last)
    assert inputs[:3] == [number(x) for x in (c1.replica_id, c1.comm_d, c1.comm_r)]
    assert (inputs[3], inputs[21]) == sector.challenges[last]
    assert max(inputs[:3]) < FR.modulus
    # the same proofs are of no other family
    for other in FAMILIES:
        if other != registered and other.interactive == registered.interactive:
            with pytest.raises(InputError, match="^partition 0: challenge [01] "):
                check_porep(backend, device, replace(c1, registered=other))
        if other != registered:
            output = json.loads(text) | {"registered_proof": other.name}
            with pytest.raises(InputError):
                check_porep(backend, device, read_c1(output, SHAPE))
