"""Winning and window PoSt as circuits like any other.

Source: spec/post_update.md sections 1 to 5.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import torch

from torchzk.backends import Backend
from torchzk.circuits.block_cache import Recall, recorded
from torchzk.circuits.circuit import Circuit, Source, WitnessBytes, document_of
from torchzk.circuits.job_head import agreed
from torchzk.circuits.post import assign, n_public_inputs, post_r1cs, post_witness_bytes, slot_aux
from torchzk.circuits.post_job import PostJob, load_post_job
from torchzk.circuits.post_shapes import PostShape
from torchzk.circuits.post_slots import PostSlots
from torchzk.circuits.registered import PostKind
from torchzk.circuits.sectors import SectorShape
from torchzk.circuits.slots import public_inputs, slots_of
from torchzk.circuits.vanilla_checks import check_sectors
from torchzk.errors import InputError
from torchzk.groth16.r1cs import Assignment, R1cs


@dataclass(frozen=True)
class PostCircuit(Circuit[PostJob, PostSlots]):
    """That sectors are still stored; see `Circuit` for what the methods do."""

    shape: PostShape

    @property
    def kind(self) -> PostKind:
        return self.shape.kind

    @property
    def sector(self) -> SectorShape:
        return self.shape.sector

    @property
    def n_inputs(self) -> int:
        return n_public_inputs(self.shape)

    @property
    def cache_identifier(self) -> str:
        text = (
            f"FallbackPoSt::PublicParams{{sector_size: {self.sector_size}, "
            f"challenge_count: {self.shape.n_challenges}, sector_count: {self.shape.n_slots}}}"
        )
        digest = hashlib.sha256(text.encode()).hexdigest()
        return f"proof-of-spacetime-fallback-{self.sector.tree_r.name}-{digest}"

    def r1cs(self, recall: Recall = recorded) -> R1cs:
        return post_r1cs(self.shape, recall)

    def read_job(
        self, source: Source, *, miner_id: int | None = None, sector_number: int | None = None
    ) -> PostJob:
        job = load_post_job(source, self.shape)
        agreed(document_of(source), "miner id", job.miner_id, miner_id)
        ids = [sector.sector_id for sector in job.sectors]
        if sector_number is not None and sector_number not in ids:
            raise InputError(
                f"{document_of(source)}: sector {sector_number} is not among the vanilla proofs"
            )
        return job

    def check_job(self, backend: Backend, device: torch.device, job: PostJob) -> None:
        check_sectors(backend, device, job)

    def witness(
        self, backend: Backend, device: torch.device, job: PostJob, partition: int
    ) -> PostSlots:
        return slots_of(backend, device, job, partition)

    def assignment(self, backend: Backend, witness: PostSlots) -> Assignment:
        return assign(backend, self.shape, witness)

    def witness_bytes(self, *, on_cpu: bool) -> WitnessBytes:
        return post_witness_bytes(self.shape)

    def most_numbers(self) -> tuple[int, int]:
        return 0, slot_aux(self.shape)

    def public_inputs(self, job: PostJob, partition: int) -> list[int]:
        return public_inputs(job, partition)
