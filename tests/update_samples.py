"""Witnesses of sector updates: from job files, read without any check, and of a tiny sector."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Callable, Sequence
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import torch

from torchzk.circuits.sectors import SectorShape, TreeShape
from torchzk.circuits.update_challenges import phi, rho_index, update_challenges
from torchzk.circuits.update_shapes import UpdateShape
from torchzk.circuits.update_witness import UpdateWitness
from torchzk.ops.layout import pack_mont
from torchzk.params.fields import FR
from torchzk.params.poseidon import Poseidon

Json = dict[str, Any]
JOBS = Path(__file__).parent / "golden" / "jobs"
TINY = SectorShape(1 << 10, "1KiB", TreeShape(1, 4, 0))


@cache
def job(name: str) -> Json:
    value: Json = json.loads(gzip.decompress((JOBS / f"{name}.json.gz").read_bytes()))
    return value


def witness_of(
    job: Json, partition: int, shape: UpdateShape, device: torch.device
) -> UpdateWitness:
    """The witness of one partition of a job."""
    proof = job["vanilla_proofs"][partition]
    challenges: list[Json] = proof["challenge_proofs"]
    (old, new, data) = (
        [_body(challenge[name]) for challenge in challenges]
        for name in ("proof_r_old", "proof_r_new", "proof_d_new")
    )
    paths_d = [[_number(e["hashes"][0]) for e in _levels(body)] for body in data]
    return _witness(
        device,
        partition,
        commitments=[
            *(_number(bytes.fromhex(job[f"comm_{x}"])) for x in ("r_old", "d_new", "r_new")),
            *(_number(x) for x in (proof["comm_c"], old[0]["root"], new[0]["root"])),
        ],
        apex_leaves=[_number(x) for x in proof["apex_leafs"]],
        partition_path=paths_d[0][shape.tree_d_levels + shape.apex_bits :],
        leaves=[[_number(_leaf(body)) for body in bodies] for bodies in (old, data)],
        paths=[
            [[[_number(h) for h in e["hashes"]] for e in _levels(body)] for body in bodies]
            for bodies in (old, new)
        ],
        paths_d=[path[: shape.tree_d_levels] for path in paths_d],
    )


def _body(merkle: Json) -> Json:
    (body,) = merkle["data"].values()
    return dict(body)


def _leaf(body: Json) -> list[int]:
    leaf: list[int] = (body if "leaf" in body else body["base_proof"])["leaf"]
    return leaf


def _levels(body: Json) -> list[Json]:
    parts = [
        body[name] for name in ("path", "base_proof", "sub_proof", "top_proof") if name in body
    ]
    return [level for part in parts for level in part["path"]]


def _number(value: Sequence[int]) -> int:
    return int.from_bytes(bytes(value), "little")


def tiny_update(shape: UpdateShape, partition: int, device: torch.device) -> UpdateWitness:
    """An update of a sector of random nodes, whose trees are built whole, on integers."""
    draw = random.Random(shape.n_challenges)
    n = shape.sector.n_nodes
    r_old, d_new = ([draw.randrange(FR.modulus) for _ in range(n)] for _ in range(2))
    comm_c = draw.randrange(FR.modulus)
    arities = shape.sector.tree_r.arities
    tree_d = _tree(d_new, (2,) * shape.node_bits, _sha256_254)
    tree_r_old = _tree(r_old, arities, _poseidon)
    comm_d_new = tree_d[-1][0]
    comm_r_old = _poseidon([comm_c, tree_r_old[-1][0]])
    seed = phi(comm_d_new, comm_r_old)
    r_new = [
        (old + data * _rho(shape, seed, node)) % FR.modulus
        for node, (old, data) in enumerate(zip(r_old, d_new, strict=True))
    ]
    tree_r_new = _tree(r_new, arities, _poseidon)
    comm_r_new = _poseidon([comm_c, tree_r_new[-1][0]])
    challenges = update_challenges(shape, comm_r_new, partition)
    apex = shape.tree_d_levels
    first = partition * shape.n_apex_leaves
    # the partition's root, and its path
    above = _path(tree_d[shape.challenge_bits :], (2,) * shape.partition_bits, partition)
    return _witness(
        device,
        partition,
        commitments=[
            comm_r_old,
            comm_d_new,
            comm_r_new,
            comm_c,
            tree_r_old[-1][0],
            tree_r_new[-1][0],
        ],
        apex_leaves=tree_d[apex][first : first + shape.n_apex_leaves],
        partition_path=[siblings[0] for siblings in above],
        leaves=[[nodes[i] for i in challenges] for nodes in (r_old, d_new)],
        paths=[[_path(tree, arities, i) for i in challenges] for tree in (tree_r_old, tree_r_new)],
        paths_d=[[x[0] for x in _path(tree_d, (2,) * apex, i)] for i in challenges],
    )


def _rho(shape: UpdateShape, seed: int, node: int) -> int:
    """The factor of the new data at a node."""
    return Poseidon.randomness().digest([seed, rho_index(shape, node)])


def _tree(
    leaves: list[int], arities: Sequence[int], node: Callable[[list[int]], int]
) -> list[list[int]]:
    rows = [leaves]
    for arity in arities:
        row = rows[-1]
        rows.append([node(row[i : i + arity]) for i in range(0, len(row), arity)])
    return rows


def _path(tree: list[list[int]], arities: Sequence[int], index: int) -> list[list[int]]:
    """The siblings of each level."""
    path = []
    for row, arity in zip(tree, arities, strict=False):
        first = index - index % arity
        path.append([row[i] for i in range(first, first + arity) if i != index])
        index //= arity
    return path


def _poseidon(children: list[int]) -> int:
    return Poseidon.merkle(len(children)).digest(children)


def _sha256_254(children: list[int]) -> int:
    digest = sha256(b"".join(x.to_bytes(32, "little") for x in children)).digest()
    return int.from_bytes(digest, "little") % 2**254


def _witness(
    device: torch.device,
    partition: int,
    *,
    commitments: list[int],
    apex_leaves: list[int],
    partition_path: list[int],
    leaves: list[list[int]],
    paths: list[list[list[list[int]]]],
    paths_d: list[list[int]],
) -> UpdateWitness:
    """From integers: commitments in the order of the fields; leaves and paths old, then other."""
    c = len(paths_d)

    def numbers(values: list[int], *batch: int) -> torch.Tensor:
        return pack_mont(values, FR, device).view(8, *batch)

    def siblings(of: list[list[list[int]]]) -> tuple[torch.Tensor, ...]:
        return tuple(
            numbers([x for path in of for x in path[i]], c, len(of[0][i]))
            for i in range(len(of[0]))
        )

    comm_r_old, comm_d_new, comm_r_new, comm_c, root_r_old, root_r_new = (
        numbers([x], 1) for x in commitments
    )
    return UpdateWitness(
        partition=torch.full((1,), partition, dtype=torch.int64, device=device),
        comm_r_old=comm_r_old,
        comm_d_new=comm_d_new,
        comm_r_new=comm_r_new,
        comm_c=comm_c,
        root_r_old=root_r_old,
        root_r_new=root_r_new,
        apex_leaves=numbers(apex_leaves, len(apex_leaves)),
        partition_path=numbers(partition_path, len(partition_path)),
        leaves_r_old=numbers(leaves[0], c),
        leaves_d_new=numbers(leaves[1], c),
        siblings_r_old=siblings(paths[0]),
        siblings_r_new=siblings(paths[1]),
        siblings_d_new=numbers([x for path in paths_d for x in path], c, len(paths_d[0])),
    )
