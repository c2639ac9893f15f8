"""Jobs of synthetic sectors for benchmarks of proofs: taken from a folder, or made there."""

from __future__ import annotations

import hashlib
from pathlib import Path

import torch

from torchzk.backends import Backend
from torchzk.bench.proof_cases import ProofBenchmark
from torchzk.circuits.circuit import AnyCircuit, Job
from torchzk.circuits.synthetic import SyntheticSector, make_sector
from torchzk.circuits.synthetic_jobs import write_job
from torchzk.files import make_folder
from torchzk.scheduler.synthetic_input import sector_name
from torchzk.timeline import Timeline


class Inputs:
    """A folder of jobs. Keeps the last sector, which several kinds of proof are about."""

    def __init__(self, folder: Path, backend: Backend, device: torch.device) -> None:
        self._folder, self._backend, self._device = folder, backend, device
        self._sector: SyntheticSector | None = None

    def job(self, benchmark: ProofBenchmark, timeline: Timeline) -> tuple[Path, bool]:
        """The job's file `{short}.json`, and whether it was made just now."""
        path = self._folder / f"{benchmark.short}.json"
        if path.is_file():
            return path, False
        sector = self._made(benchmark, timeline)
        make_folder(self._folder)
        with timeline.span("write job"):
            write_job(path, sector, benchmark.kind)
        return path, True

    def _made(self, benchmark: ProofBenchmark, timeline: Timeline) -> SyntheticSector:
        of = sector_name(benchmark.sector_name, benchmark.sector_size)
        if self._sector is None or self._sector.of != of:
            self._sector = make_sector(of, self._backend, self._device, timeline)
        return self._sector


def inputs_agree(benchmark: ProofBenchmark, circuit: AnyCircuit, job: Job) -> bool:
    """Whether the public inputs of a job are those that filecoin-proofs has for this sector."""
    for partition, expected in enumerate(benchmark.inputs_sha256):
        values = [1, *circuit.public_inputs(job, partition)]
        octets = b"".join(value.to_bytes(32, "little") for value in values)
        if hashlib.sha256(octets).hexdigest() != expected:
            return False
    return True
