"""A partition's tensors: every slot has its sector's elements, padding repeats the last."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from torchzk.backends import Backend
from torchzk.circuits.post_job import PostJob, load_post_job
from torchzk.circuits.post_shapes import PostShape, post_shape
from torchzk.circuits.post_slots import PostSlots
from torchzk.circuits.slots import slots_of
from torchzk.circuits.vanilla import SectorProof
from torchzk.ops.layout import unpack_mont
from torchzk.params.fields import FR

CASES = {
    "sector2k_b_window3": post_shape("window", 2048),
    "sector2k_a_winning": post_shape("winning", 2048),
}


def elements(raw: bytes) -> list[int]:
    return [int.from_bytes(raw[i : i + 32], "little") for i in range(0, len(raw), 32)]


def values(x: torch.Tensor) -> list[int]:
    return unpack_mont(x.reshape(8, -1), FR)


def expected_slots(job: PostJob, partition: int) -> list[tuple[SectorProof, list[int]]]:
    """The sector of each slot and the numbers of its paths."""
    if job.kind == "winning":
        return [(job.sectors[0], [i]) for i in range(66)]
    first = 2 * partition
    second = min(first + 1, len(job.sectors) - 1)
    return [(job.sectors[i], list(range(10))) for i in (first, second)]


@pytest.mark.parametrize(("name", "shape"), CASES.items())
def test_elements_are_in_place(
    backend: Backend, device: torch.device, golden: Path, name: str, shape: PostShape
) -> None:
    job = load_post_job(golden / "jobs" / f"{name}.bincode.json", shape)
    for partition in range(job.n_partitions):
        slots = slots_of(backend, device, job, partition)
        wanted = expected_slots(job, partition)
        assert (slots.n_slots, slots.n_challenges) == (len(wanted), len(wanted[0][1]))
        assert slots.arities == shape.sector.tree_r.arities
        check_elements(slots, wanted)


def check_elements(slots: PostSlots, wanted: list[tuple[SectorProof, list[int]]]) -> None:
    for name in ("comm_r", "comm_c", "comm_r_last"):
        raw = b"".join(getattr(sector, name) for sector, _ in wanted)
        assert values(getattr(slots, name)) == elements(raw)
    paths = [sector.paths[i] for sector, numbers in wanted for i in numbers]
    assert values(slots.leaves) == elements(b"".join(path.leaf for path in paths))
    flat = slots.indices.flatten(0, 1).tolist()
    assert flat == [list(path.indices) for path in paths]
    for level in range(2):
        row = slice(7 * 32 * level, 7 * 32 * (level + 1))
        raw = b"".join(path.siblings[row] for path in paths)
        assert values(slots.siblings[level]) == elements(raw)
