"""Assignments of sector updates: of real and synthetic ones against the reference's digests."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import pytest
import torch

from porep_samples import values_digest
from torchzk.backends import Backend
from torchzk.circuits.update import public_inputs, update_r1cs
from torchzk.circuits.update_assign import assign
from torchzk.circuits.update_shapes import UpdateShape, update_shape
from torchzk.circuits.update_witness import UpdateWitness
from torchzk.errors import LayoutError
from torchzk.groth16.products import products, unsatisfied_row
from torchzk.groth16.r1cs import Assignment, R1cs
from torchzk.ops.layout import unpack_mont
from torchzk.params.fields import FR
from update_samples import TINY, job, tiny_update, witness_of

# no TreeD path but many challenges, of two digests; and the other way round
TINY_SHAPES = {
    "many challenges": (UpdateShape(TINY, 2, 70, 16, (1, 2, 3, 4, 5, 5), 3), 1),
    "deep": (UpdateShape(TINY, 4, 3, 2, (1, 2, 3, 4, 5, 5), 5), 2),
}


def _r1cs(shape: UpdateShape) -> R1cs:
    """The system of a shape, which is the same for every h."""
    return _recorded(replace(shape, h=shape.hs[0]))


@lru_cache(maxsize=1)
def _recorded(shape: UpdateShape) -> R1cs:
    return update_r1cs(shape)


def _check(
    name: str, sector_size: int, golden: Path, backend: Backend, device: torch.device
) -> None:
    expected = json.loads((golden / "update_witness.json").read_text())[name][0]
    shape = update_shape(sector_size)
    r1cs = _r1cs(shape)
    assignment = assign(backend, shape, witness_of(job(name), 0, shape, device))
    assert values_digest(backend, assignment.inputs) == expected["inputs_sha256"]
    assert values_digest(backend, assignment.aux) == expected["aux_sha256"]
    abc = products(backend, r1cs, assignment)
    rows = [values_digest(backend, x[:, : r1cs.n_rows]) for x in abc]
    assert rows == expected["abc_with_input_rows_sha256"]
    assert unsatisfied_row(backend, *abc) is None


def test_a_sealed_sector(golden: Path, backend: Backend, device: torch.device) -> None:
    _check("sector2k_a_update", 2 << 10, golden, backend, device)


@pytest.mark.full("a second like the first, and one of ten million constraints")
@pytest.mark.parametrize(
    ("name", "sector_size"), [("synth2k_update", 2 << 10), ("synth8m_update", 8 << 20)]
)
def test_synthetic_sectors(
    name: str, sector_size: int, golden: Path, backend: Backend, device: torch.device
) -> None:
    _check(name, sector_size, golden, backend, device)


@pytest.mark.full("ten million constraints")
def test_the_last_partition(backend: Backend, device: torch.device) -> None:
    shape = update_shape(8 << 20)
    assignment = assign(backend, shape, witness_of(job("synth8m_update"), 3, shape, device))
    abc = products(backend, _r1cs(shape), assignment)
    assert unsatisfied_row(backend, *abc) is None
    assert unpack_mont(assignment.inputs[:, 1:2], FR) == [3 + (8 << 2)]


def _first_unsatisfied(backend: Backend, shape: UpdateShape, witness: UpdateWitness) -> int | None:
    assignment = assign(backend, shape, witness)
    return unsatisfied_row(backend, *products(backend, _r1cs(shape), assignment))


@pytest.mark.parametrize("name", TINY_SHAPES)
def test_a_tiny_sector_satisfies_its_circuit(
    name: str, backend: Backend, device: torch.device
) -> None:
    shape, partition = TINY_SHAPES[name]
    witness = tiny_update(shape, partition, device)
    assignment = assign(backend, shape, witness)
    assert unsatisfied_row(backend, *products(backend, _r1cs(shape), assignment)) is None
    commitments = (witness.comm_r_old, witness.comm_d_new, witness.comm_r_new)
    values = [unpack_mont(x, FR)[0] for x in commitments]
    expected = [1, *public_inputs(shape, partition, values[0], values[1], values[2])]
    assert unpack_mont(assignment.inputs, FR) == expected


def test_what_does_not_belong_together_breaks_a_challenge(
    backend: Backend, device: torch.device
) -> None:
    shape, partition = TINY_SHAPES["deep"]
    r1cs, witness = _r1cs(shape), tiny_update(shape, partition, device)
    body = r1cs.prologue.n_constraints + torch.arange(4) * r1cs.block.n_constraints
    changed = witness.leaves_r_old.clone()
    changed[:, 1] = witness.leaves_r_old[:, 0]
    # the path of the old replica's node does not lead to the root any more
    row = _first_unsatisfied(backend, shape, replace(witness, leaves_r_old=changed))
    assert row is not None and body[1] < row < body[2]
    # with another h, rho is another one, and so is the new replica's node
    row = _first_unsatisfied(backend, replace(shape, h=1), witness)
    assert row is not None and body[0] < row < body[1]
    # challenges of another partition are other nodes; its root does not even lie under comm_d_new
    another = torch.ones_like(witness.partition)
    row = _first_unsatisfied(backend, shape, replace(witness, partition=another))
    assert row is not None and row < body[0]


def test_a_wrong_value_is_found_in_the_first_row_it_breaks(
    backend: Backend, device: torch.device
) -> None:
    shape, partition = TINY_SHAPES["deep"]
    r1cs = _r1cs(shape)
    assignment = assign(backend, shape, tiny_update(shape, partition, device))
    # c_high of the smallest h is what the block allocates first, and its row the block's first
    assignment.aux[:, r1cs.prologue.n_aux + r1cs.block.n_aux] ^= 1
    abc = products(backend, r1cs, Assignment(assignment.inputs, assignment.aux))
    first = r1cs.prologue.n_constraints + r1cs.block.n_constraints
    assert unsatisfied_row(backend, *abc) == first


def test_a_witness_of_another_shape_is_refused(backend: Backend, device: torch.device) -> None:
    shape, partition = TINY_SHAPES["deep"]
    witness = tiny_update(shape, partition, device)
    with pytest.raises(LayoutError, match=r"must be \(10, \(8, 8\), 8, 0, 3\), got \(3, \(8, 4\)"):
        assign(backend, update_shape(2048), witness)
    with pytest.raises(LayoutError, match="one number of a partition"):
        replace(witness, partition=witness.partition.repeat(2))
    with pytest.raises(LayoutError, match="6 numbers and 2 leaves for each of 3"):
        replace(witness, comm_c=witness.comm_c[:, 0])
    with pytest.raises(LayoutError, match="siblings for 3 challenges"):
        replace(witness, siblings_d_new=witness.siblings_d_new[:, :2])
    with pytest.raises(LayoutError, match="different arities"):
        replace(witness, siblings_r_new=witness.siblings_r_new[:1])
