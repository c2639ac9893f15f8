"""Sparse trees equal full ones, and their proofs lead to their root."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

import pytest
import torch

from torchzk.backends import Backend
from torchzk.circuits.elements import from_planes, octets_of, to_planes
from torchzk.circuits.replica_id import clear_top_bits
from torchzk.circuits.sparse_tree import (
    ZERO,
    poseidon_tree,
    zero_data_tree,
)
from torchzk.circuits.vanilla import MerkleProof
from torchzk.params.fields import FR
from torchzk.params.poseidon import Poseidon

Hash = Callable[[Sequence[bytes]], bytes]


def poseidon_hash(children: Sequence[bytes]) -> bytes:
    values = [int.from_bytes(child, "little") for child in children]
    return Poseidon.merkle(len(values)).digest(values).to_bytes(32, "little")


def sha254(children: Sequence[bytes]) -> bytes:
    return clear_top_bits(hashlib.sha256(b"".join(children)).digest())


def full_levels(leaves: list[bytes], arities: Sequence[int], hash_of: Hash) -> list[list[bytes]]:
    levels = [leaves]
    for arity in arities:
        row = levels[-1]
        levels.append([hash_of(row[i : i + arity]) for i in range(0, len(row), arity)])
    return levels


def climbed(proof: MerkleProof, arities: Sequence[int], hash_of: Hash) -> bytes:
    node, rest = proof.leaf, proof.siblings
    for arity, place in zip(arities, proof.indices, strict=True):
        children = [rest[32 * i : 32 * i + 32] for i in range(arity - 1)]
        children.insert(place, node)
        node, rest = hash_of(children), rest[32 * (arity - 1) :]
    assert rest == b""
    return node


@pytest.mark.parametrize("places", [[], [0], [15], [3, 4, 11], list(range(16))], ids=str)
def test_against_a_full_tree(places: list[int], backend: Backend, device: torch.device) -> None:
    arities = (8, 2)
    leaves = {i: (FR.modulus - 1 - i).to_bytes(32, "little") for i in places}
    tree = poseidon_tree(backend, device, arities, leaves)
    levels = full_levels([leaves.get(i, ZERO) for i in range(16)], arities, poseidon_hash)
    assert [
        [level[i] for i in range(len(full))]
        for level, full in zip(tree.levels, levels, strict=True)
    ] == levels
    for index in range(16):
        proof = tree.proof(index)
        assert (proof.leaf, proof.root) == (leaves.get(index, ZERO), tree.root)
        assert proof.indices == bytes([index % 8, index // 8])
        assert climbed(proof, arities, poseidon_hash) == tree.root


def test_paths_of_a_large_tree(backend: Backend, device: torch.device) -> None:
    arities = (8,) * 9 + (8, 2)
    places = [0, 1, 8, (1 << 31) - 1, 1 << 30, 123_456_789]
    leaves = {i: i.to_bytes(32, "little") for i in places}
    tree = poseidon_tree(backend, device, arities, leaves)
    for index in (*places, 2, 1_000_000_000):
        proof = tree.proof(index)
        assert proof.leaf == leaves.get(index, ZERO)
        assert climbed(proof, arities, poseidon_hash) == tree.root
    # nothing was hashed but the paths and one value a level
    assert all(len(level.nodes) <= len(places) for level in tree.levels)


@pytest.mark.parametrize(
    ("n_levels", "root"),
    [
        (6, "fc7e928296e516faade986b28f92d44a4f24b935485223376a799027bc18f833"),
        (18, "65f29e5d98d246c38b388cfc06db1f6b021303c5a289000bdce832a9c3ec421c"),
        (24, "39560e7b13a93b07a243fd2720ffa7cb3e1d2e505ab3629e79f46313512cda06"),
        (30, "077e5fde35c50a9303a55009e3498a4ebedff39c42b710b730d8ec7ac7afa63e"),
        (31, "e64005a6bfe3777953b8ad6ef93f0fca1049b2041654f2a411f7702799cece02"),
    ],
)
def test_zero_data(n_levels: int, root: str) -> None:
    """The commitments of zero sectors that the network knows (spec/vectors.md)."""
    tree = zero_data_tree(n_levels)
    assert tree.root.hex() == root
    proof = tree.proof(5)
    assert climbed(proof, tree.arities, sha254) == tree.root


def test_elements_come_back(backend: Backend, device: torch.device) -> None:
    elements = [v.to_bytes(32, "little") for v in (0, 1, FR.modulus - 1, 1 << 200)]
    planes = to_planes(backend, device, octets_of(elements))
    assert planes.shape == (8, 4)
    assert from_planes(backend, planes) == elements
