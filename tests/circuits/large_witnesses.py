"""Checks the witness of synthetic sectors too large for a test: inputs, aux, A z, B z, C z.

    PYTHONPATH=src:tests python tests/circuits/large_witnesses.py [--backend torch] [CASE ...]

A case is SECTOR-KIND-PARTITION, as synth32g-porep-1; without any, all that `golden` has. The
sector is made, its job read and verified, the assignment computed and multiplied, a few copies of
the block at a time, and every digest compared with the reference's. Exits with 1 if one differs.
32 GiB take 10 GB and some ten minutes a case on one core; on a GPU the digests take longest.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from porep_samples import values_digest
from torchzk.backends import Backend, choose_backend, load_backend
from torchzk.circuits.registered import default_seal
from torchzk.circuits.registry import get_circuit
from torchzk.circuits.synthetic import SectorName, make_sector
from torchzk.circuits.synthetic_jobs import job_text
from torchzk.groth16.products import block_matrices, parts
from torchzk.groth16.r1cs import Assignment, R1cs
from torchzk.params.fields import FR
from torchzk.timeline import Timeline

GOLDEN = Path(__file__).parents[1] / "golden" / "large_witness.json"
SIZES = {"synth8m": 8 << 20, "synth32g": 32 << 30, "synth64g": 64 << 30}
_ROWS_AT_ONCE = 1 << 22


class Digest:
    """`porep_samples.values_digest` of values that come in pieces."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._state = hashlib.sha256()

    def take(self, values: torch.Tensor) -> None:
        """`[8, n]` in Montgomery form."""
        for piece in values.split(1 << 21, dim=1):
            canonical = self._backend.from_mont(piece.contiguous(), FR)
            self._state.update(canonical.t().contiguous().cpu().numpy().tobytes())

    def hex(self) -> str:
        return self._state.hexdigest()


def product_digests(backend: Backend, r1cs: R1cs, assignment: Assignment) -> list[str]:
    """Of A z, B z and C z with the input rows, a few copies at a time."""
    device = assignment.aux.device
    states = [Digest(backend) for _ in range(3)]
    for block, copies in parts(r1cs, device):
        step = max(1, _ROWS_AT_ONCE // max(1, block.n_constraints))
        for first in range(copies.first, copies.last, step):
            some = replace(copies, first=first, last=min(first + step, copies.last))
            rows = (some.last - some.first) * block.n_constraints
            for state, matrix in zip(states, block_matrices(block, device), strict=True):
                out = torch.empty(8, rows, dtype=torch.int32, device=device)
                backend.spmv_copies(matrix, some, assignment.inputs, assignment.aux, out)
                state.take(out)
    states[0].take(assignment.inputs)
    for state in states[1:]:
        state.take(torch.zeros_like(assignment.inputs))
    return [state.hex() for state in states]


def check(case: str, expected: dict[str, Any], backend: Backend, device: torch.device) -> bool:
    name, kind, partition = case.split("-")
    begin = time.perf_counter()
    size = SIZES[name]
    of = SectorName(name, default_seal(size), sector_id=7, miner_id=1000)
    sector = make_sector(of, backend, device, Timeline())
    source = "".join(job_text(sector, kind)).encode()  # type: ignore[arg-type]
    circuit = get_circuit(kind, size)
    job = circuit.read_job(source, miner_id=1000)
    circuit.check_job(backend, device, job)
    witness = circuit.witness(backend, device, job, int(partition))
    start = time.perf_counter()
    assignment = circuit.assignment(backend, witness)
    if device.type == "cuda":
        # the host's clock times the device's work
        torch.cuda.synchronize(device)
    took = time.perf_counter() - start
    got = {
        "inputs_sha256": values_digest(backend, assignment.inputs),
        "aux_sha256": values_digest(backend, assignment.aux),
        "abc_with_input_rows_sha256": product_digests(backend, circuit.r1cs(), assignment),
    }
    right = got == expected
    total = time.perf_counter() - begin
    verdict = "equal" if right else f"WRONG, got {got}"
    print(f"{case}: {verdict}; assignment {took:.2f} s, all {total:.0f} s", flush=True)
    return right


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--backend", default="auto")
    parser.add_argument("cases", nargs="*", metavar="CASE")
    args = parser.parse_args(argv)
    device = torch.device("cuda", 0) if torch.cuda.is_available() else torch.device("cpu")
    if device.type == "cpu":
        torch.set_num_threads(1)
    choice = choose_backend(args.backend, device)
    backend = load_backend(choice.name)
    print(f"on {device}, backend {choice}", flush=True)
    golden = json.loads(GOLDEN.read_text())
    # not all(): every case shall run
    return int(not min([check(c, golden[c], backend, device) for c in args.cases or golden]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
