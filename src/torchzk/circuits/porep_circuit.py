"""The PoRep as a circuit like any other. Source: spec/porep.md sections 8 to 11."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from torchzk.backends import Backend
from torchzk.circuits.block_cache import Recall, recorded
from torchzk.circuits.circuit import Circuit, Source, WitnessBytes
from torchzk.circuits.porep import n_public_inputs, porep_r1cs
from torchzk.circuits.porep_assign import assign, porep_numbers, porep_witness_bytes
from torchzk.circuits.porep_job import PorepJob, load_porep_job
from torchzk.circuits.porep_nodes import porep_public_inputs
from torchzk.circuits.porep_shapes import StackedShape
from torchzk.circuits.porep_slots import porep_witness
from torchzk.circuits.porep_vanilla import check_porep
from torchzk.circuits.porep_witness import PorepWitness
from torchzk.circuits.sectors import SectorShape
from torchzk.groth16.r1cs import Assignment, R1cs


@dataclass(frozen=True)
class PorepCircuit(Circuit[PorepJob, PorepWitness]):
    """That a sector was sealed; see `Circuit` for what the methods do."""

    shape: StackedShape

    @property
    def kind(self) -> str:
        return "porep"

    @property
    def sector(self) -> SectorShape:
        return self.shape.sector

    @property
    def n_inputs(self) -> int:
        return n_public_inputs(self.shape)

    @property
    def cache_identifier(self) -> str:
        return self.shape.cache_identifier

    def r1cs(self, recall: Recall = recorded) -> R1cs:
        return porep_r1cs(self.shape, recall)

    def read_job(
        self, source: Source, *, miner_id: int | None = None, sector_number: int | None = None
    ) -> PorepJob:
        return load_porep_job(source, self.shape, miner_id=miner_id, sector_number=sector_number)

    def check_job(self, backend: Backend, device: torch.device, job: PorepJob) -> None:
        check_porep(backend, device, job.c1, miner_id=job.miner_id, sector_number=job.sector_number)

    def witness(
        self, backend: Backend, device: torch.device, job: PorepJob, partition: int
    ) -> PorepWitness:
        return porep_witness(backend, device, job.c1, partition)

    def assignment(self, backend: Backend, witness: PorepWitness) -> Assignment:
        return assign(backend, self.shape, witness)

    def witness_bytes(self, *, on_cpu: bool) -> WitnessBytes:
        return porep_witness_bytes(self.shape, on_cpu=on_cpu)

    def most_numbers(self) -> tuple[int, int]:
        return porep_numbers(self.shape)

    def public_inputs(self, job: PorepJob, partition: int) -> list[int]:
        return porep_public_inputs(job.c1, partition)

    def notes(self, job: PorepJob) -> list[str]:
        """Whether replica_id can be checked, and that proofs are not aggregated."""
        numbers = {"miner id": job.miner_id, "sector number": job.sector_number}
        missing = [name for name, number in numbers.items() if number is None]
        notes = []
        if missing:
            notes.append(f"replica_id is taken as it is: no {' and no '.join(missing)} is known")
        if not job.registered.interactive:
            notes.append(
                f"NOT AGGREGATED: a non-interactive PoRep, {job.n_partitions} proofs one after the"
                " other, where the network takes their aggregate"
            )
        return notes
