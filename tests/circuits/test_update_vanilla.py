"""Updates of the reference hold; whatever is changed in one does not, and the error says where."""

from __future__ import annotations

import gzip
from dataclasses import replace

import pytest
import torch

from torchzk.backends import Backend, load_backend
from torchzk.circuits.layouts import template
from torchzk.circuits.update_job import UpdateJob, load_update_job
from torchzk.circuits.update_proof import partition_layout
from torchzk.circuits.update_shapes import update_shape
from torchzk.circuits.update_vanilla import check_update
from torchzk.errors import InputError
from update_samples import JOBS

SIZES = {"sector2k_a_update": 2048, "synth2k_update": 2048, "synth8m_update": 8 << 20}
PLACE = r"^partition 0: challenge 3 \(node \d+\): "
PROOF = "challenge_proofs[3]"


def load(name: str) -> UpdateJob:
    data = gzip.decompress((JOBS / f"{name}.json.gz").read_bytes())
    return load_update_job(data, update_shape(SIZES[name]))


@pytest.fixture(scope="module")
def job() -> UpdateJob:
    return load("sector2k_a_update")


def with_element(job: UpdateJob, name: str, partition: int = 0) -> UpdateJob:
    """One bit of one element is another."""
    elements = job.elements.copy()
    k = template(partition_layout(job.shape)).element_names.index(name)
    elements[partition, k, 2] ^= 4
    return replace(job, elements=elements)


def flip(raw: bytes) -> bytes:
    return bytes([raw[0] ^ 1]) + raw[1:]


@pytest.mark.parametrize("name", SIZES)
def test_reference(backend: Backend, device: torch.device, name: str) -> None:
    check_update(backend, device, load(name))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("proof_r_old.data.Single.root", "proof_r_old: the root .* is not the first one's"),
        ("proof_r_new.data.Single.root", "proof_r_new: the root .* is not the first one's"),
        ("proof_d_new.data.Single.root", "proof_d_new: the root .* is not comm_d_new"),
        ("proof_r_old.data.Single.leaf", "proof_r_new: the leaf is not that of proof_r_old plus"),
        ("proof_r_new.data.Single.leaf", "proof_r_new: the leaf is not that of proof_r_old plus"),
        ("proof_d_new.data.Single.leaf", "proof_d_new: level"),
        ("proof_d_new.data.Single.path.path[4].hashes[0]", "proof_d_new: level"),
        ("proof_r_old.data.Single.path.path[0].hashes[6]", "proof_r_old: level"),
        ("proof_r_new.data.Single.path.path[1].hashes[0]", "proof_r_new: level 1: "),
    ],
)
def test_flipped_element(
    backend: Backend, device: torch.device, job: UpdateJob, name: str, message: str
) -> None:
    with pytest.raises(InputError, match=PLACE + message):
        check_update(backend, device, with_element(job, f"{PROOF}.{name}"))


@pytest.mark.full("each of 409 elements in turn: two minutes")
def test_every_flipped_element(device: torch.device, job: UpdateJob) -> None:
    backend = load_backend("torch")
    for name in template(partition_layout(job.shape)).element_names:
        with pytest.raises(InputError):
            check_update(backend, device, with_element(job, name))


def test_every_integer(backend: Backend, device: torch.device, job: UpdateJob) -> None:
    known = template(partition_layout(job.shape))
    for k, name in enumerate(known.integer_names):
        integers = job.integers.copy()
        integers[0, k] = (integers[0, k] + 1) % known.bounds[k]
        challenge, tree = name.split("].")[0].split("[")[1], name.split(".")[1]
        level = name.rpartition("path[")[2].partition("]")[0]
        place = rf"^partition 0: challenge {challenge} \(node \d+\): {tree}: level {level}: the"
        with pytest.raises(InputError, match=place):
            check_update(backend, device, replace(job, integers=integers))


def test_apex(backend: Backend, device: torch.device, job: UpdateJob) -> None:
    """A leaf on a challenge's path is named with it, another one with its partition."""
    for leaf in range(8):
        with pytest.raises(InputError) as caught:
            check_update(backend, device, with_element(job, f"apex_leafs[{leaf}]"))
        message = str(caught.value)
        assert f"apex_leafs[{leaf}]: is not the node of proof_d_new below level 3" in message or (
            message.startswith("partition 0: apex_leafs: do not hash to the partition's node")
        )
    large = load("synth8m_update")
    with pytest.raises(InputError, match="^partition 2: .*apex_leafs"):
        check_update(backend, device, with_element(large, "apex_leafs[99]", partition=2))


def test_commitments(backend: Backend, device: torch.device, job: UpdateJob) -> None:
    for changed, message in (
        (replace(job, comm_r_new=flip(job.comm_r_new)), "the challenged node has .* is comm_r_new"),
        (replace(job, comm_d_new=flip(job.comm_d_new)), "the root .* is not comm_d_new"),
        (replace(job, comm_r_old=flip(job.comm_r_old)), "^comm_r_old .* of proof_r_old$"),
        (with_element(job, "comm_c"), "^comm_r_old .* is not the Poseidon hash of comm_c and"),
        (with_element(load("synth8m_update"), "comm_c", 3), "^partition 3: comm_c .* partition 0$"),
    ):
        with pytest.raises(InputError, match=message):
            check_update(backend, device, changed)


def test_swapped_partitions(backend: Backend, device: torch.device) -> None:
    job = load("synth8m_update")
    order = [0, 2, 1, 3]
    swapped = replace(job, elements=job.elements[order], integers=job.integers[order])
    with pytest.raises(InputError, match="^partition 1: challenge 0 .* the partitions in order"):
        check_update(backend, device, swapped)
