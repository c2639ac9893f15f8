"""What a witness is said to take, against what its tensor program allocates at full size.

The program runs on torch's device without memory, whose tensors have shapes and no values, with
operations that give results of the right shape: so 32 GiB sectors take no time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import numpy as np
import pytest
import torch

from capturable import CannotBeCapturedError, capturable
from memory_tracker import watch_memory
from torchzk.backends import Backend
from torchzk.circuits.registry import get_circuit
from witness_samples import Shapes, integers, witness_of


@pytest.mark.parametrize("kind", ["winning", "window", "porep", "update"])
@pytest.mark.parametrize("sector_size", [2 << 10, 8 << 20, 32 << 30, 64 << 30])
def test_a_witness_takes_what_it_is_said_to(kind: str, sector_size: int) -> None:
    circuit = get_circuit(kind, sector_size)
    said = circuit.witness_bytes(on_cpu=False)
    with watch_memory() as given:
        witness = witness_of(circuit)
    with watch_memory() as made:
        values = circuit.assignment(cast(Backend, Shapes()), witness)
    result = 4 * (values.inputs.numel() + values.aux.numel())
    assert made.alive >= result > 0
    assert given.alive <= said.given
    # tables that are kept were there before if another test ran this circuit
    assert made.peak <= result + said.scratch + (1 << 17)
    assert result + said.scratch <= 1.06 * made.peak + (1 << 20)
    # again, with all constants there
    del values
    with capturable():
        circuit.assignment(cast(Backend, Shapes()), witness)


@pytest.mark.parametrize(
    "done",
    [
        lambda x: x.sum().item(),
        lambda x: bool((x == 0).all()),
        lambda x: int(x[0]),
        lambda x: x.tolist(),
        lambda x: x.cpu(),
        lambda x: x.nonzero(),
        lambda x: x[x > 0],
        lambda x: torch.equal(x, x),
        lambda x: x[[0, 1]],
        lambda x: x.__setitem__(np.array([0, 1]), 0),
        lambda x: torch.tensor([1, 2], device=x.device),
        lambda x: x.new_tensor([1, 2]),
        lambda x: torch.as_tensor(np.zeros(4), device=x.device),
        lambda x: torch.from_numpy(np.zeros(4)).to(x.device),
        lambda x: torch.arange(4).to(x.device),
        lambda x: x.copy_(torch.arange(4)),
        lambda x: x + torch.arange(4),
        lambda x: torch.repeat_interleave(x, x),
    ],
)
def test_what_no_graph_can_capture_is_refused(done: Callable[[torch.Tensor], object]) -> None:
    with pytest.raises(CannotBeCapturedError), capturable():
        done(integers(4))


def test_what_a_graph_captures_is_not_refused() -> None:
    x = integers(4, 2)
    with capturable():
        x[:, 1] &= 3
        x[0, ...] = 1
        torch.where(x > 0, x, 0).index_select(0, torch.arange(2, device=x.device))
        x[torch.arange(2, device=x.device)].to(torch.int32).clone()


def test_a_cpu_works_on_smaller_pieces() -> None:
    circuit = get_circuit("update", 32 << 30)
    on_cpu, on_gpu = (circuit.witness_bytes(on_cpu=x).scratch for x in (True, False))
    assert 3 * on_cpu < on_gpu
