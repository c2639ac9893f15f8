"""Compares plans with what the allocator of a GPU saw, stage by stage, as JSON lines.

    PYTHONPATH=src:tests python tests/scheduler/plan_against_peak.py [CIRCUIT ...] [--caps 80 48]
        [--no-witness-graph]

A circuit is KIND-SIZE, as porep-32GiB. Of each, a synthetic sector is made, and with every cap a
development key in memory; the first partition is proven three times, for the second one captures
the witness, or twice without a witness graph, the second time with what the first left behind; the
proofs' bytes are compared. A line a stage: the plan's bytes, the most that torch had allocated in
it beyond what was there before the session, and their ratio, which must not be below 1 for the
peak. Exits with 1 if one is, or if bytes differ.
"""

from __future__ import annotations

import argparse
import gc
import hashlib
import json
import sys
from dataclasses import dataclass, field
from typing import Any

import torch

from torchzk import api
from torchzk.backends import choose_backend, forget_tables, load_backend
from torchzk.circuits.circuit import Job
from torchzk.circuits.registered import default_seal
from torchzk.circuits.registry import get_circuit
from torchzk.circuits.sectors import SECTOR_SHAPES
from torchzk.circuits.synthetic import SectorName, make_sector
from torchzk.circuits.synthetic_jobs import job_text
from torchzk.config import CircuitConfig, Config
from torchzk.errors import TorchzkError
from torchzk.groth16.products import forget_matrices
from torchzk.groth16.prover import Randomisers
from torchzk.groth16.query_variables import query_variables
from torchzk.scheduler.proof_work import prove_partition
from torchzk.timeline import Span, Timeline

FIXED = Randomisers(0x5EED0001, 0x5EED0002)
CAPS = (141, 80, 48, 24, 16)


@dataclass
class Peaks:
    """Most bytes allocated in each outermost span; every one begins with an idle device."""

    device: torch.device
    most: dict[str, int] = field(default_factory=dict)
    milliseconds: dict[str, float] = field(default_factory=dict)
    _depth: int = 0

    def timeline(self) -> Timeline:
        return Timeline(on_open=self._opened, on_close=self._closed)

    def _opened(self, name: str) -> None:
        if self._depth == 0:
            torch.cuda.synchronize(self.device)
            torch.cuda.reset_peak_memory_stats(self.device)
        self._depth += 1

    def _closed(self, span: Span) -> None:
        self._depth -= 1
        if self._depth == 0:
            torch.cuda.synchronize(self.device)
            peak = torch.cuda.max_memory_allocated(self.device)
            self.most[span.name] = max(peak, self.most.get(span.name, 0))
            self.milliseconds[span.name] = round(span.seconds * 1000, 1)


def emit(**row: Any) -> None:
    print(json.dumps(row), flush=True)


def job_of(name: str, device: torch.device) -> Job:
    """The job of a synthetic sector for the circuit of this name."""
    kind, _, size_name = name.partition("-")
    size = next(s.sector_size for s in SECTOR_SHAPES.values() if s.name == size_name)
    backend = load_backend(choose_backend("auto", device).name)
    seal = default_seal(size)
    if seal is None:
        raise SystemExit(f"{name}: no seal proof of {size} bytes; take a registered size")
    sector = make_sector(SectorName("peaks", seal, 7, 1000), backend, device, Timeline())
    source = "".join(job_text(sector, kind)).encode()  # type: ignore[arg-type]
    job: Job = get_circuit(kind, size).read_job(source, miner_id=1000)
    return job


def measure(job: Job, cap: int, device: torch.device, *, graph: bool) -> str | None:
    """Prove the first partition within a cap; the digest of the proof, None where it failed."""
    # what an earlier cap left behind is not this one's
    forget_matrices(device)
    query_variables.forget(device)
    gc.collect()
    forget_tables(choose_backend("auto", device).name, device)
    before = torch.cuda.memory_allocated(device)
    peaks = Peaks(device)
    config = Config(
        circuit=CircuitConfig(kind=job.kind, sector_size=job.sector_size),  # type: ignore[arg-type]
        keys="dev-in-memory",
        device=str(device),
        vram_limit=cap * 10**9,
        witness_graph=graph,
    )
    session = api.open_session(config, peaks.timeline(), lambda text: emit(warning=text))
    name = session.circuit.name
    try:
        with api.get_keys(session) as keys:
            site = api.Site(session, keys)
            made = [prove_partition(site, job, 0, FIXED) for _ in range(3 if graph else 2)]
    except (TorchzkError, torch.OutOfMemoryError) as e:
        emit(circuit=name, cap_gb=cap, error=f"{type(e).__name__}: {e}")
        return None
    plan = session.plan
    making = plan.making_key + (plan.key_bytes if plan.key_stays else 0)
    for stage, planned in {**plan.stage_bytes, "make key": making}.items():
        peak = peaks.most.get(stage, before) - before
        ratio = round(planned / peak, 3) if peak else None
        took = peaks.milliseconds.get(stage)
        figures = {"planned": planned, "peak": peak, "ratio": ratio, "ms": took}
        emit(circuit=name, cap_gb=cap, stage=stage, **figures)
    peak = max(peaks.most.get(stage, before) for stage in plan.stage_bytes) - before
    digests = {hashlib.sha256(proof).hexdigest() for proof in made}
    emit(
        circuit=name,
        cap_gb=cap,
        stage="all",
        planned=plan.peak,
        peak=peak,
        ratio=round(plan.peak / peak, 3),
        reserved=torch.cuda.max_memory_reserved(device),
        verdict=plan.verdict,
        g1_points=plan.room.g1_points,
        g2_points=plan.room.g2_points,
        scratch=plan.room.scratch_bytes,
        proof=sorted(digests),
    )
    return digests.pop() if len(digests) == 1 and plan.peak >= peak else None


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("circuits", nargs="*", default=["porep-32GiB"], metavar="CIRCUIT")
    parser.add_argument("--no-witness-graph", action="store_false", dest="graph")
    parser.add_argument("--caps", type=int, nargs="+", default=CAPS, metavar="GB")
    args = parser.parse_args(argv)
    if not torch.cuda.is_available():
        raise SystemExit("there is no CUDA device to measure on")
    device = torch.device("cuda", 0)
    right = True
    for name in args.circuits:
        job = job_of(name, device)
        digests = [measure(job, cap, device, graph=args.graph) for cap in args.caps]
        right &= None not in digests and len(set(digests)) == 1
    return int(not right)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
