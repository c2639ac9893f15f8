"""What can be proven of a synthetic sector, as the text of files.

Source: spec/synthetic.md; spec/porep.md section 8 and spec/post_update.md sections 3 and 8.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from torchzk.circuits.challenges import challenge_indexes, leaf_challenge
from torchzk.circuits.job_head import JobKind
from torchzk.circuits.labels import hashed, parent_rows
from torchzk.circuits.porep_shapes import DRG_PARENTS
from torchzk.circuits.post_shapes import post_shape
from torchzk.circuits.registered import PostKind, default_post
from torchzk.circuits.serde_json import CompactJson, Value, merkle_value
from torchzk.circuits.synthetic import SyntheticSector
from torchzk.circuits.update_challenges import update_challenges
from torchzk.circuits.update_shapes import update_shape
from torchzk.files import atomic_write


def job_text(sector: SyntheticSector, kind: JobKind) -> Iterator[str]:
    """The job file in pieces, compact: a C1 output as serde writes it, other jobs sorted by key."""
    if kind == "porep":
        yield from _c1_text(sector)
        return
    if kind == "update":
        proofs = update_proofs(sector)
        facts: dict[str, Value] = {
            "comm_d_new": sector.tree_d.root.hex(),
            "comm_r_new": sector.comm_r.hex(),
            "comm_r_old": sector.comm_r.hex(),
        }
    else:
        proofs = iter([post_proof(sector, kind)])
        facts = {"randomness": _randomness(sector, kind).hex()}
    facts |= {
        "kind": kind,
        "miner_id": sector.of.miner_id,
        "sector_size": sector.of.registered.sector_size,
    }
    json = CompactJson(sort_keys=True)
    # the proofs are the last key
    yield json.text(facts)[:-1] + ',"vanilla_proofs":['
    for i, proof in enumerate(proofs):
        yield ("," if i else "") + json.text(proof)
    yield "]}"


def write_job(path: Path, sector: SyntheticSector, kind: JobKind) -> str:
    """Write `job_text`, all of it or nothing; returns the SHA-256 of the file.

    Raises:
        ConfigError: The file cannot be written.
        ResourceError: The disk is full.
    """
    digest = hashlib.sha256()
    with atomic_write(path) as file:
        for piece in job_text(sector, kind):
            data = piece.encode()
            digest.update(data)
            file.write(data)
    return digest.hexdigest()


def post_proof(sector: SyntheticSector, kind: PostKind) -> Value:
    """FallbackPoStSectorProof for the randomness that follows from the sector's name."""
    shape = post_shape(kind, sector.of.registered.sector_size)
    api = default_post(kind, shape.sector.sector_size).api
    randomness = _randomness(sector, kind)
    leaves = [
        leaf_challenge(randomness, sector.of.sector_id, i, shape.sector.n_nodes)
        for i in challenge_indexes(api, 0, shape.challenges_per_sector)
    ]
    tree = shape.sector.tree_r
    opened: Value = {
        "inclusion_proofs": [merkle_value(sector.tree_r.proof(leaf), tree) for leaf in leaves],
        "comm_c": sector.tree_c.root,
        "comm_r_last": sector.tree_r.root,
    }
    return {
        "sector_id": sector.of.sector_id,
        "comm_r": sector.comm_r,
        "vanilla_proof": {"sectors": [opened]},
    }


def update_proofs(sector: SyntheticSector) -> Iterator[Value]:
    """PartitionProof of each partition of an update to zero data: the replica stays as it is."""
    shape = update_shape(sector.of.registered.sector_size)
    comm_r = int.from_bytes(sector.comm_r, "little")
    apex_leaf = sector.tree_d.levels[shape.tree_d_levels].default
    for partition in range(shape.n_partitions):
        opened: list[Value] = []
        for node in update_challenges(shape, comm_r, partition):
            replica = merkle_value(sector.tree_r.proof(node), shape.sector.tree_r)
            data = merkle_value(sector.tree_d.proof(node), None)
            opened.append({"proof_r_old": replica, "proof_d_new": data, "proof_r_new": replica})
        yield {
            "comm_c": sector.tree_c.root,
            "apex_leafs": [apex_leaf] * shape.n_apex_leaves,
            "challenge_proofs": opened,
        }


def _randomness(sector: SyntheticSector, kind: PostKind) -> bytes:
    return sector.of.drawn(f"_{kind} randomness")


def _c1_text(sector: SyntheticSector) -> Iterator[str]:
    """The API form. A partition of 32 GiB is 3.7 MB."""
    json = CompactJson()
    of_size = f"StackedDrg{sector.shape.sector.name}V1"
    yield f'{{"registered_proof":"{sector.of.registered.name}","vanilla_proofs":{{"{of_size}":['
    for i, challenges in enumerate(sector.challenges):
        yield ",[" if i else "["
        for j, node in enumerate(challenges):
            yield ("," if j else "") + json.text(_challenge_proof(sector, node))
        yield "]"
    rest: Value = {
        "comm_r": sector.comm_r,
        "comm_d": sector.tree_d.root,
        "replica_id": sector.replica_id,
        "seed": sector.seed,
        "ticket": sector.ticket,
    }
    yield "]}," + json.text(rest)[1:]


def _challenge_proof(sector: SyntheticSector, node: int) -> Value:
    tree = sector.shape.sector.tree_r
    row = sector.parents[node]
    labelings = [_labeling(sector, layer, node) for layer in range(1, sector.shape.layers + 1)]

    @cache
    def column(index: int) -> Value:
        proof = merkle_value(sector.tree_c.proof(index), tree)
        rows: Value = {"index": index, "rows": sector.columns[index], "_h": None}
        return {"column": rows, "inclusion_proof": proof}

    return {
        "comm_d_proofs": merkle_value(sector.tree_d.proof(node), None),
        "comm_r_last_proof": merkle_value(sector.tree_r.proof(node), tree),
        "replica_column_proofs": {
            "c_x": column(node),
            "drg_parents": [column(p) for p in row[:DRG_PARENTS]],
            "exp_parents": [column(p) for p in row[DRG_PARENTS:]],
        },
        "labeling_proofs": labelings,
        "encoding_proof": labelings[-1],
    }


def _labeling(sector: SyntheticSector, layer: int, node: int) -> Value:
    row = sector.parents[node]
    labels = [sector.columns[row[i]][k] for i, k in parent_rows(layer)]
    return {"parents": hashed(node, labels), "layer_index": layer, "node": node}
