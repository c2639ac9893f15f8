"""How many variables can be other than 0 and 1, against assignments of real jobs."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from torchzk.backends import Backend
from torchzk.circuits.registry import get_circuit
from torchzk.ops.layout import OTHER

INPUTS = Path(__file__).parents[2] / "configs" / "inputs"


@pytest.mark.parametrize("kind", ["winning", "window", "porep", "update"])
def test_no_more_variables_are_numbers(kind: str, backend: Backend, device: torch.device) -> None:
    circuit = get_circuit(kind, 2 << 10)
    job = circuit.read_job(INPUTS / f"{kind}2k.json")
    aux = circuit.assignment(backend, circuit.witness(backend, device, job, 0)).aux
    r1cs = circuit.r1cs()
    head, own = circuit.most_numbers()
    is_number = backend.classes(aux) == OTHER
    assert int(is_number[: r1cs.prologue.n_aux].sum()) <= head <= r1cs.prologue.n_aux
    found = is_number[r1cs.prologue.n_aux :].view(r1cs.copies, -1).sum(dim=1)
    # some values are 0 or 1 by chance
    assert 0.9 * own <= int(found.max()) <= own <= r1cs.block.n_aux
