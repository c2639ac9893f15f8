"""PoReps of the reference hold; whatever is changed in one does not, and the error says where."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from c1_samples import SIZES, reference, sample
from torchzk.backends import Backend, load_backend
from torchzk.circuits.c1 import C1
from torchzk.circuits.c1_file import read_c1
from torchzk.circuits.porep_nodes import porep_public_inputs
from torchzk.circuits.porep_shapes import porep_shape
from torchzk.circuits.porep_vanilla import check_porep
from torchzk.circuits.registered import REGISTERED_SEALS
from torchzk.errors import InputError

PLACE = r"^partition 0: challenge 1 \(node 33\): "
COLUMNS = "replica_column_proofs"


def load(name: str) -> C1:
    return read_c1(sample(f"{name}_c1.json"), porep_shape(SIZES[name]))


@pytest.fixture(scope="module")
def c1() -> C1:
    return load("sector2k_a")


def flip(raw: bytes) -> bytes:
    return bytes([raw[0] ^ 1]) + raw[1:]


def with_element(c1: C1, name: str, challenge: int = 1, partition: int = 0) -> C1:
    """One bit of one element is another."""
    elements = c1.elements.copy()
    elements[partition, challenge, c1.template.element_names.index(name), 2] ^= 4
    return replace(c1, elements=elements)


def with_integer(c1: C1, name: str, challenge: int = 1) -> C1:
    """One integer is another, within its bounds."""
    k = c1.template.integer_names.index(name)
    integers = c1.integers.copy()
    integers[0, challenge, k] = (integers[0, challenge, k] + 1) % c1.template.bounds[k]
    return replace(c1, integers=integers)


@pytest.mark.parametrize("name", SIZES)
def test_reference(backend: Backend, device: torch.device, name: str) -> None:
    figures = reference(name)
    check_porep(
        backend,
        device,
        load(name),
        miner_id=figures["actor_id"],
        sector_number=figures["sector_id"],
    )


@pytest.mark.parametrize("name", SIZES)
def test_public_inputs(name: str) -> None:
    c1 = load(name)
    got = [porep_public_inputs(c1, k) for k in range(c1.n_partitions)]
    assert got == [
        [int.from_bytes(bytes.fromhex(x), "little") for x in partition]
        for partition in reference(name)["public_inputs_hex_le"]
    ]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("comm_d_proofs.data.Single.root", "comm_d_proofs: the root .* is not comm_d"),
        ("comm_d_proofs.data.Single.leaf", "encoding_proof: .* do not add up to"),
        (
            "comm_d_proofs.data.Single.path.path[2].hashes[0]",
            "comm_d_proofs: levels? [0-9]",
        ),
        ("comm_r_last_proof.data.Single.root", "comm_r_last_proof: the root .* comm_r_last"),
        ("comm_r_last_proof.data.Single.leaf", "encoding_proof: .* do not add up to"),
        (f"{COLUMNS}.c_x.column.rows[0]", r"labeling_proofs\[0\]: the label of layer 1 is"),
        (f"{COLUMNS}.c_x.column.rows[1]", r"labeling_proofs\[1\]: the label of layer 2 is"),
        (
            f"{COLUMNS}.drg_parents[3].column.rows[0]",
            rf"labeling_proofs\[0\].parents\[3\]: is not {COLUMNS}.drg_parents\[3\].column.rows\[0",
        ),
        (
            f"{COLUMNS}.drg_parents[0].column.rows[1]",
            rf"labeling_proofs\[1\].parents\[0\]: is not {COLUMNS}.drg_parents\[0\].column.rows\[1",
        ),
        (
            f"{COLUMNS}.exp_parents[7].column.rows[0]",
            rf"labeling_proofs\[1\].parents\[13\]: is not {COLUMNS}.exp_parents\[7\].column.rows\[",
        ),
        (f"{COLUMNS}.c_x.inclusion_proof.data.Single.root", "c_x.* the root .* is not comm_c"),
        ("labeling_proofs[0].parents[36]", rf"\[36\]: is not {COLUMNS}.drg_parents\[0\].column"),
        ("labeling_proofs[1].parents[28]", rf"\[28\]: is not {COLUMNS}.drg_parents\[0\].column"),
        ("encoding_proof.parents[14]", rf"encoding_proof.parents\[14\]: is not {COLUMNS}.drg"),
        (
            f"{COLUMNS}.exp_parents[2].column.rows[1]",
            rf"{COLUMNS}.exp_parents\[2\].inclusion_proof: the leaf is not the Poseidon hash",
        ),
        (
            f"{COLUMNS}.c_x.inclusion_proof.data.Single.leaf",
            f"{COLUMNS}.c_x.inclusion_proof: the leaf is not the Poseidon hash",
        ),
        (
            f"{COLUMNS}.drg_parents[1].inclusion_proof.data.Single.path.path[1].hashes[6]",
            rf"{COLUMNS}.drg_parents\[1\].inclusion_proof: level 1: ",
        ),
        (
            f"{COLUMNS}.c_x.inclusion_proof.data.Single.path.path[0].hashes[0]",
            f"{COLUMNS}.c_x.inclusion_proof: level",
        ),
        (
            "comm_r_last_proof.data.Single.path.path[0].hashes[3]",
            "comm_r_last_proof: level",
        ),
    ],
)
def test_flipped_element(
    backend: Backend, device: torch.device, c1: C1, name: str, message: str
) -> None:
    with pytest.raises(InputError, match=f"{PLACE}.*({message})"):
        check_porep(backend, device, with_element(c1, name))


@pytest.mark.full("each of 405 elements in turn: two minutes")
def test_every_flipped_element(device: torch.device, c1: C1) -> None:
    backend = load_backend("torch")
    for name in c1.template.element_names:
        with pytest.raises(InputError, match=PLACE):
            check_porep(backend, device, with_element(c1, name))


def test_every_integer(backend: Backend, device: torch.device, c1: C1) -> None:
    for name in c1.template.integer_names:
        with pytest.raises(InputError, match=PLACE) as caught:
            check_porep(backend, device, with_integer(c1, name))
        proof, _, level = name.partition(".data.")
        assert proof in str(caught.value)
        if level:
            number = level.partition("[")[2].partition("]")[0]
            assert f"level {number}: the path has index" in str(caught.value)


def test_other_partition_is_named(backend: Backend, device: torch.device) -> None:
    damaged = with_element(load("sector2k_ni"), "encoding_proof.parents[0]", 0, partition=12)
    with pytest.raises(InputError, match=r"^partition 12: challenge 0 \(node \d+\): encoding_"):
        check_porep(backend, device, damaged)
    swapped = load("sector2k_ni")
    order = [0, 1, 3, 2, *range(4, 13)]
    swapped = replace(swapped, elements=swapped.elements[order], integers=swapped.integers[order])
    with pytest.raises(InputError, match="^partition 2: challenge 0 .* the challenge is node"):
        check_porep(backend, device, swapped)


def test_what_the_challenges_follow_from(backend: Backend, device: torch.device, c1: C1) -> None:
    for changed in (replace(c1, seed=flip(c1.seed)), replace(c1, replica_id=flip(c1.replica_id))):
        with pytest.raises(InputError, match="challenge is node .* are replica_id, seed and reg"):
            check_porep(backend, device, changed)
    # API 1.0.0 has another order of parents; synthetic challenges come from another set
    for number, message in ((0, "the parent is node .* is StackedDrg2KiBV1 what"), (10, "challe")):
        other = replace(c1, registered=REGISTERED_SEALS[number])
        with pytest.raises(InputError, match=f"^partition 0: challenge 0 .*{message}"):
            check_porep(backend, device, other)
    ni = load("sector2k_ni")
    check_porep(backend, device, replace(ni, seed=flip(ni.seed)))
    with pytest.raises(InputError, match="the challenge is node"):
        check_porep(backend, device, replace(ni, comm_r=flip(ni.comm_r)))


def test_commitments(backend: Backend, device: torch.device, c1: C1) -> None:
    with pytest.raises(InputError, match="^partition 0: challenge 0 .*the root .* is not comm_d"):
        check_porep(backend, device, replace(c1, comm_d=flip(c1.comm_d)))
    with pytest.raises(InputError, match="^comm_r .* is not the Poseidon hash of comm_c and"):
        check_porep(backend, device, replace(c1, comm_r=flip(c1.comm_r)))
    # the same other root everywhere
    for tree in ("c_x", "comm_r_last"):
        elements = c1.elements.copy()
        for k, name in enumerate(c1.template.element_names):
            same = "inclusion_proof" if tree == "c_x" else tree
            if name.endswith(".root") and same in name:
                elements[:, :, k, 0] ^= 1
        with pytest.raises(InputError, match="^comm_r .* is not the Poseidon hash"):
            check_porep(backend, device, replace(c1, elements=elements))


def test_whose_sector(backend: Backend, device: torch.device, c1: C1) -> None:
    for miner, sector, changed in (
        (1001, 1, c1),
        (1000, 2, c1),
        (1000, 1, replace(c1, ticket=flip(c1.ticket))),
        (1000, 1, replace(c1, registered=REGISTERED_SEALS[0])),
    ):
        with pytest.raises(InputError, match=f"^replica_id .* not that of miner {miner}, sector"):
            check_porep(backend, device, changed, miner_id=miner, sector_number=sector)


def test_swapped_challenges(backend: Backend, device: torch.device, c1: C1) -> None:
    swapped = replace(
        c1,
        elements=np.ascontiguousarray(c1.elements[:, ::-1]),
        integers=np.ascontiguousarray(c1.integers[:, ::-1]),
    )
    with pytest.raises(InputError, match="^partition 0: challenge 0 .* the challenge is node"):
        check_porep(backend, device, swapped)
