"""Jobs of every kind behind one door: read, verified, and made into what their circuit takes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch

from torchzk.backends import Backend
from torchzk.circuits.jobs import PostJob, load_post_job
from torchzk.circuits.porep_job import PorepJob, load_porep_job
from torchzk.circuits.porep_nodes import porep_public_inputs
from torchzk.circuits.porep_shapes import StackedShape
from torchzk.circuits.porep_slots import porep_witness
from torchzk.circuits.porep_vanilla import check_porep
from torchzk.circuits.porep_witness import PorepWitness
from torchzk.circuits.post_shapes import PostShape
from torchzk.circuits.post_slots import PostSlots
from torchzk.circuits.slots import public_inputs as post_public_inputs
from torchzk.circuits.slots import slots_of
from torchzk.circuits.update_job import UpdateJob, load_update_job, update_public_inputs
from torchzk.circuits.update_shapes import UpdateShape
from torchzk.circuits.update_slots import update_witness
from torchzk.circuits.update_vanilla import check_update
from torchzk.circuits.update_witness import UpdateWitness
from torchzk.circuits.vanilla_checks import check_sectors
from torchzk.errors import InputError

Shape = PostShape | StackedShape | UpdateShape
Job = PostJob | PorepJob | UpdateJob
Witness = PostSlots | PorepWitness | UpdateWitness


def read_job(
    source: Path | bytes | Mapping[str, object], shape: Shape, *, miner_id: int | None = None
) -> Job:
    """Read what the circuit of `shape` is to prove.

    Args:
        source: A job file or a C1 output, its bytes, or the parsed object.
        shape: The circuit's.
        miner_id: Whose sectors they are, if known from elsewhere: most C1 outputs do not say.

    Raises:
        InputError: It cannot be read, breaks a rule of its format, or is another miner's.
    """
    match shape:
        case StackedShape():
            return load_porep_job(source, shape, miner_id=miner_id)
        case UpdateShape():
            job: PostJob | UpdateJob = load_update_job(source, shape)
        case PostShape():
            job = load_post_job(source, shape)
    if miner_id not in (None, job.miner_id):
        document = str(source) if isinstance(source, Path) else "job"
        raise InputError(f"{document}: the miner id is {job.miner_id}, {miner_id} was asked for")
    return job


def check_job(backend: Backend, device: torch.device, job: Job) -> None:
    """Verify the vanilla proofs of a job.

    Raises:
        InputError: The first thing that does not hold; says where.
    """
    match job:
        case PorepJob(c1, miner_id, sector_number):
            check_porep(backend, device, c1, miner_id=miner_id, sector_number=sector_number)
        case UpdateJob():
            check_update(backend, device, job)
        case PostJob():
            check_sectors(backend, device, job)


def public_inputs(job: Job, partition: int) -> list[int]:
    """The public inputs of a partition, without ONE, canonical."""
    match job:
        case PorepJob():
            return porep_public_inputs(job.c1, partition)
        case UpdateJob():
            return update_public_inputs(job, partition)
        case PostJob():
            return post_public_inputs(job, partition)


def job_witness(backend: Backend, device: torch.device, job: Job, partition: int) -> Witness:
    """What the job's circuit takes for a partition, on `device`."""
    match job:
        case PorepJob():
            return porep_witness(backend, device, job.c1, partition)
        case UpdateJob():
            return update_witness(backend, device, job, partition)
        case PostJob():
            return slots_of(backend, device, job, partition)
