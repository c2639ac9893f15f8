"""The sector update as a circuit like any other. Source: spec/post_update.md sections 6 to 10."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import torch

from torchzk.backends import Backend
from torchzk.circuits.block_cache import Recall, recorded
from torchzk.circuits.circuit import Circuit, Source, WitnessBytes, document_of
from torchzk.circuits.job_head import agreed
from torchzk.circuits.sectors import SectorShape
from torchzk.circuits.update import N_INPUTS, update_r1cs
from torchzk.circuits.update_assign import assign, update_numbers, update_witness_bytes
from torchzk.circuits.update_job import UpdateJob, load_update_job, update_public_inputs
from torchzk.circuits.update_shapes import UpdateShape
from torchzk.circuits.update_slots import update_witness
from torchzk.circuits.update_vanilla import check_update
from torchzk.circuits.update_witness import UpdateWitness
from torchzk.groth16.r1cs import Assignment, R1cs


@dataclass(frozen=True)
class UpdateCircuit(Circuit[UpdateJob, UpdateWitness]):
    """That a sector without data now has some; see `Circuit` for what the methods do."""

    shape: UpdateShape

    @property
    def kind(self) -> str:
        return "update"

    @property
    def sector(self) -> SectorShape:
        return self.shape.sector

    @property
    def n_inputs(self) -> int:
        return N_INPUTS

    @property
    def cache_identifier(self) -> str:
        text = f"empty_sector_update::PublicParams{{ sector_nodes: {self.sector.n_nodes} }}"
        digest = hashlib.sha256(text.encode()).hexdigest()
        return f"empty-sector-update-{self.sector.tree_r.name}-{digest}"

    def r1cs(self, recall: Recall = recorded) -> R1cs:
        return update_r1cs(self.shape, recall)

    def read_job(
        self, source: Source, *, miner_id: int | None = None, sector_number: int | None = None
    ) -> UpdateJob:
        job = load_update_job(source, self.shape)
        agreed(document_of(source), "miner id", job.miner_id, miner_id)
        agreed(document_of(source), "sector number", job.sector_number, sector_number)
        return job

    def check_job(self, backend: Backend, device: torch.device, job: UpdateJob) -> None:
        check_update(backend, device, job)

    def witness(
        self, backend: Backend, device: torch.device, job: UpdateJob, partition: int
    ) -> UpdateWitness:
        return update_witness(backend, device, job, partition)

    def assignment(self, backend: Backend, witness: UpdateWitness) -> Assignment:
        return assign(backend, self.shape, witness)

    def witness_bytes(self, *, on_cpu: bool) -> WitnessBytes:
        return update_witness_bytes(self.shape, on_cpu=on_cpu)

    def most_numbers(self) -> tuple[int, int]:
        return update_numbers(self.shape)

    def public_inputs(self, job: UpdateJob, partition: int) -> list[int]:
        return update_public_inputs(job, partition)
