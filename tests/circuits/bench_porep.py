"""Checks and times the witness of a PoRep partition.

    PYTHONPATH=src:tests python tests/circuits/bench_porep.py [SECTOR [RUNS]]

SECTOR is one of synth2k, synth8m, synth512m, synth32g, synth64g; the last two want a GPU of 40 GB.
Times are of the assignment from the typed witness, and of A z, B z, C z; both are compared with the
reference's digests. Works on the first CUDA device if there is one, by the kernels.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch

from porep_samples import synthetic_c1, values_digest, witness_of
from torchzk.backends import choose_backend, load_backend
from torchzk.bench.timing import Timed, measure
from torchzk.circuits.porep import porep_r1cs
from torchzk.circuits.porep_assign import assign
from torchzk.circuits.porep_shapes import porep_shape
from torchzk.groth16.products import products, unsatisfied_row

SIZES = {
    "synth2k": 2 << 10,
    "synth8m": 8 << 20,
    "synth512m": 512 << 20,
    "synth32g": 32 << 30,
    "synth64g": 64 << 30,
}
Triple = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


def report(what: str, timed: Timed) -> None:
    times = timed.times
    peak = "" if times.peak_bytes is None else f", {times.peak_bytes / (1 << 30):.2f} GiB"
    print(
        f"{what}: {1e3 * times.quantile(50):.1f} ms (first {times.first_call:.1f} s){peak}, "
        f"{'right' if timed.right else 'WRONG'}",
        flush=True,
    )


def main(sector: str = "synth2k", runs: str = "7") -> None:
    device = torch.device("cuda", 0) if torch.cuda.is_available() else torch.device("cpu")
    choice = choose_backend("auto", device)
    backend = load_backend(choice.name)
    print(f"{sector} on {device}, backend {choice}", flush=True)
    golden = Path(__file__).parents[1] / "golden" / "porep_witness.json"
    expected = json.loads(golden.read_text())[sector][0]
    shape = porep_shape(SIZES[sector])
    witness = witness_of(synthetic_c1(sector, SIZES[sector], backend, device), 0, device)
    assignment = assign(backend, shape, witness)

    def right_values(got: object) -> bool:
        inputs, aux = vars(got)["inputs"], vars(got)["aux"]
        digests = [values_digest(backend, x) for x in (inputs, aux)]
        return digests == [expected["inputs_sha256"], expected["aux_sha256"]]

    def wires() -> object:
        return assign(backend, shape, witness)

    report("assignment", measure(wires, right_values, device, int(runs), lambda part: None))
    r1cs = porep_r1cs(shape)

    def right_products(got: Triple) -> bool:
        digests = [values_digest(backend, x[:, : r1cs.n_rows]) for x in got]
        return bool(digests == expected["abc_with_input_rows_sha256"])

    def rows() -> Triple:
        return products(backend, r1cs, assignment)

    report("products", measure(rows, right_products, device, int(runs), lambda part: None))
    abc = rows()

    def check() -> int | None:
        return unsatisfied_row(backend, *abc)

    report("check", measure(check, lambda row: row is None, device, int(runs), lambda part: None))


if __name__ == "__main__":
    main(*sys.argv[1:])
