"""Poseidon's constants against digests of the known ones, and the hash by its definition."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from torchzk.params.fields import FR
from torchzk.params.poseidon import PARTIAL_ROUNDS, Poseidon

ARITIES = [2, 4, 8, 11, 16, 24, 36]


def sha256(values: Iterable[int]) -> str:
    return hashlib.sha256(b"".join(v.to_bytes(32, "little") for v in values)).hexdigest()


@pytest.fixture
def known(golden: Path) -> dict[str, Any]:
    vectors: dict[str, Any] = json.loads((golden / "poseidon.json").read_text())
    return vectors


@pytest.mark.parametrize("arity", ARITIES)
def test_constants(known: dict[str, Any], arity: int) -> None:
    instance, expected = Poseidon.merkle(arity), known["merkle"][str(arity)]
    assert instance.partial_rounds == expected["partial_rounds"]
    assert instance.round_constants[0] == int(expected["round_constant_first"], 16)
    assert instance.round_constants[-1] == int(expected["round_constant_last"], 16)
    assert sha256(instance.round_constants) == expected["round_constants_sha256_le32"]
    assert len(instance.compressed) == expected["compressed_constants_count"]
    assert sha256(instance.compressed) == expected["compressed_constants_sha256_le32"]
    pre_sparse = (x for row in instance.pre_sparse for x in row)
    assert sha256(pre_sparse) == expected["pre_sparse_row_major_sha256_le32"]
    sparse = (x for w_hat, v_rest in instance.sparse for x in (*w_hat, *v_rest))
    assert sha256(sparse) == expected["sparse_sha256_le32"]


@pytest.mark.parametrize("arity", ARITIES)
def test_digest_of_neptunes_tests(known: dict[str, Any], arity: int) -> None:
    expected = known["merkle"][str(arity)]["hash_of_0_to_n_minus_1"]
    assert Poseidon.merkle(arity).digest(range(arity)) == int(expected, 16)


def test_digest_under_the_tag_of_a_sector_update(known: dict[str, Any]) -> None:
    expected = known["randomness"]["hash_of_0_to_n_minus_1"]
    assert Poseidon.randomness().digest([0, 1]) == int(expected, 16)


def test_digest_of_digests() -> None:
    hasher = Poseidon.merkle(2)
    left = 0x042F94FFBE786BC393C003CC74A24F26EC5907B3DC3094AFB339FF6079800B5E
    root = 0x1EFFEBB7B26AD9EB30EB6385AE6B74AE77CC72B8CB2B5AD2EFBB8BE3E291E671
    assert hasher.digest([1, 0]) == left
    assert hasher.digest([left, hasher.digest([0, 1])]) == root


def test_chain_of_two_hashes_of_arity_36() -> None:
    hasher = Poseidon.merkle(36)
    first = hasher.digest([1] * 36)
    expected = 0x59F42220E09FF6F75FD9623643ED9622C26F6D625F4E8195351C54133B332C90
    assert hasher.digest([first, *[1] * 35]) == expected


@pytest.mark.parametrize(
    ("arity", "wires"), [(2, 311), (4, 377), (8, 505), (11, 598), (16, 761), (24, 1009), (36, 1385)]
)
def test_wires(arity: int, wires: int) -> None:
    assert Poseidon.merkle(arity).n_wires == wires


@pytest.mark.parametrize("width", [w for w in PARTIAL_ROUNDS if w <= 17])
def test_sparse_rounds_multiply_to_the_dense_ones(width: int) -> None:
    """Without S-boxes both are M^(partial + 1); checked on one vector."""
    p = FR.modulus
    instance = Poseidon.merkle(width - 1)
    dense = sparse = [pow(3, i, p) for i in range(width)]
    for _ in range(instance.partial_rounds + 1):
        dense = [sum(m * x for m, x in zip(row, dense, strict=True)) % p for row in instance.mds]
    columns = zip(*instance.pre_sparse, strict=True)
    sparse = [sum(m * x for m, x in zip(column, sparse, strict=True)) % p for column in columns]
    for w_hat, v_rest in instance.sparse:
        first = sum(w * x for w, x in zip(w_hat, sparse, strict=True)) % p
        rest = [(x + v * sparse[0]) % p for v, x in zip(v_rest, sparse[1:], strict=True)]
        sparse = [first, *rest]
    assert sparse == dense


@pytest.mark.parametrize("arity", [0, 17, 100])
def test_unspecified_arity_is_refused(arity: int) -> None:
    with pytest.raises(ValueError, match="not specified"):
        Poseidon.merkle(arity)


def test_tag_outside_the_field_is_refused() -> None:
    with pytest.raises(ValueError, match="tag"):
        Poseidon(2, FR.modulus)


def test_digest_counts_its_inputs() -> None:
    with pytest.raises(ValueError, match="3 inputs"):
        Poseidon.merkle(2).digest([1, 2, 3])
