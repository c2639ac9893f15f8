"""Vanilla proofs of the reference hold; any byte flipped does not, and the error says where."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from torchzk.backends import Backend
from torchzk.circuits.post_job import PostJob, load_post_job
from torchzk.circuits.post_shapes import post_shape
from torchzk.circuits.vanilla import MerkleProof
from torchzk.circuits.vanilla_checks import check_sectors
from torchzk.errors import InputError

WINDOW, WINNING = post_shape("window", 2048), post_shape("winning", 2048)
WINDOW_32G = post_shape("window", 32 << 30)


@pytest.fixture
def job(golden: Path) -> PostJob:
    return load_post_job(golden / "jobs" / "sector2k_b_window3.bincode.json", WINDOW)


@pytest.fixture
def real(golden: Path) -> PostJob:
    data = json.loads((golden / "window_post_32gib_vanilla.json").read_text())
    return load_post_job(
        {
            "kind": "window",
            "sector_size": 32 << 30,
            "miner_id": data["actor_id"],
            "randomness": data["randomness"],
            "vanilla_proofs": [data["proof"]],
        },
        WINDOW_32G,
    )


def flip(raw: bytes, at: int) -> bytes:
    return raw[:at] + bytes([raw[at] ^ 1]) + raw[at + 1 :]


def with_path(job: PostJob, sector: int, challenge: int, path: MerkleProof) -> PostJob:
    proof = job.sectors[sector]
    paths = (*proof.paths[:challenge], path, *proof.paths[challenge + 1 :])
    return with_sector(job, sector, paths=paths)


def with_sector(job: PostJob, sector: int, **changes: object) -> PostJob:
    proof = replace(job.sectors[sector], **changes)  # type: ignore[arg-type]
    return replace(job, sectors=(*job.sectors[:sector], proof, *job.sectors[sector + 1 :]))


@pytest.mark.parametrize(
    "name",
    ["sector2k_a_window1", "sector2k_a_winning", "sector2k_b_window3", "sector2k_b_winning"],
)
def test_reference_holds(backend: Backend, device: torch.device, golden: Path, name: str) -> None:
    shape = WINNING if "winning" in name else WINDOW
    check_sectors(backend, device, load_post_job(golden / "jobs" / f"{name}.json", shape))


def test_real_32_gib_holds(backend: Backend, device: torch.device, real: PostJob) -> None:
    check_sectors(backend, device, real)


def test_synthetic_64_gib_holds(backend: Backend, device: torch.device, golden: Path) -> None:
    text = gzip.decompress((golden / "jobs" / "synth64g_winning.json.gz").read_bytes())
    check_sectors(backend, device, load_post_job(text, post_shape("winning", 64 << 30)))


@pytest.mark.parametrize("level", [0, 1])
@pytest.mark.parametrize("challenge", range(10))
def test_flipped_sibling(
    backend: Backend, device: torch.device, job: PostJob, challenge: int, level: int
) -> None:
    path = job.sectors[2].paths[challenge]
    byte = 7 * 32 * level + 32 * (challenge % 7) + challenge
    damaged = with_path(job, 2, challenge, replace(path, siblings=flip(path.siblings, byte)))
    with pytest.raises(InputError, match=rf"^sector 4: challenge {challenge} .*: level {level}: "):
        check_sectors(backend, device, damaged)


def test_flipped_leaf(backend: Backend, device: torch.device, job: PostJob) -> None:
    path = job.sectors[0].paths[7]
    damaged = with_path(job, 0, 7, replace(path, leaf=flip(path.leaf, 4)))
    with pytest.raises(InputError, match="^sector 2: challenge 7 .*: level 0: "):
        check_sectors(backend, device, damaged)


def test_flipped_sibling_of_a_tall_tree(
    backend: Backend, device: torch.device, real: PostJob
) -> None:
    path = real.sectors[0].paths[4]
    at_level = {0: "levels 0 to 7: ", 3: "levels 0 to 7: ", 9: "level 9: "}
    for level, expected in at_level.items():
        damaged = replace(path, siblings=flip(path.siblings, 7 * 32 * level + 5))
        with pytest.raises(InputError, match=f"^sector 1: challenge 4 .*: {expected}"):
            check_sectors(backend, device, with_path(real, 0, 4, damaged))


@pytest.mark.parametrize("name", ["comm_r", "comm_c"])
def test_flipped_commitment(
    backend: Backend, device: torch.device, job: PostJob, name: str
) -> None:
    damaged = with_sector(job, 1, **{name: flip(getattr(job.sectors[1], name), 9)})
    with pytest.raises(InputError, match="^sector 3: comm_r .* is not the Poseidon hash"):
        check_sectors(backend, device, damaged)


def test_root_and_comm_r_last(backend: Backend, device: torch.device, job: PostJob) -> None:
    path = job.sectors[1].paths[5]
    with pytest.raises(InputError, match="^sector 3: challenge 5 .* is not comm_r_last"):
        check_sectors(backend, device, with_path(job, 1, 5, replace(path, root=flip(path.root, 0))))
    other = flip(job.sectors[1].comm_r_last, 0)
    with pytest.raises(InputError, match="^sector 3: challenge 0 .* is not comm_r_last"):
        check_sectors(backend, device, with_sector(job, 1, comm_r_last=other))
    paths = tuple(replace(p, root=other) for p in job.sectors[1].paths)
    with pytest.raises(InputError, match="^sector 3: comm_r .* is not the Poseidon hash"):
        check_sectors(backend, device, with_sector(job, 1, comm_r_last=other, paths=paths))


@pytest.mark.parametrize("level", [0, 1])
def test_other_index(backend: Backend, device: torch.device, job: PostJob, level: int) -> None:
    path = job.sectors[0].paths[3]
    damaged = with_path(job, 0, 3, replace(path, indices=flip(path.indices, level)))
    with pytest.raises(InputError, match=f"^sector 2: challenge 3 .*: level {level}: the path has"):
        check_sectors(backend, device, damaged)


def test_other_challenges(backend: Backend, device: torch.device, job: PostJob) -> None:
    """Randomness, sector id and registered proof each decide which leaves are asked for."""
    with pytest.raises(InputError, match="are randomness, sector id and registered proof those"):
        check_sectors(backend, device, replace(job, randomness=flip(job.randomness, 0)))
    with pytest.raises(InputError, match="^sector 9: challenge 0 "):
        check_sectors(backend, device, with_sector(job, 2, sector_id=9))


def test_swapped_challenges(backend: Backend, device: torch.device, job: PostJob) -> None:
    first, second, *rest = job.sectors[0].paths
    damaged = with_sector(job, 0, paths=(second, first, *rest))
    with pytest.raises(InputError, match="^sector 2: challenge 0 "):
        check_sectors(backend, device, damaged)
