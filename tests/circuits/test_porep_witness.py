"""Assignments of PoRep partitions against the reference: every value, every product."""

from __future__ import annotations

import json
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch

from c1_samples import parsed, reference
from porep_samples import synthetic_c1, values_digest, witness_of
from torchzk.backends import Backend
from torchzk.circuits.porep import porep_r1cs, public_inputs
from torchzk.circuits.porep_assign import assign
from torchzk.circuits.porep_shapes import StackedShape, porep_shape
from torchzk.circuits.porep_wires import challenge_wires
from torchzk.circuits.porep_witness import MerklePaths, PorepWitness
from torchzk.errors import LayoutError, UnsatisfiedError
from torchzk.groth16.density import expected_lengths
from torchzk.groth16.keys import ProvingKey
from torchzk.groth16.products import products, unsatisfied_row
from torchzk.groth16.prover import Randomisers, prove
from torchzk.groth16.r1cs import Assignment
from torchzk.ops.layout import unpack_mont
from torchzk.params.fields import FR
from torchzk.timeline import Timeline

SMALL = [("sector2k_a", 2 << 10)]
OTHERS = [
    ("synth2k", 2 << 10),
    ("real8m", 8 << 20),
    ("synth8m", 8 << 20),
    ("synth512m", 512 << 20),
]
# the non-interactive sector has 13 partitions
VALUES_ALONE = [("sector2k_ni", 2 << 10), ("synth32g", 32 << 30), ("synth64g", 64 << 30)]


def _c1(name: str, sector_size: int, backend: Backend, device: torch.device) -> dict[str, Any]:
    if name.startswith("synth"):
        return synthetic_c1(name, sector_size, backend, device)
    return parsed(name)


def _check_values(
    backend: Backend, shape: StackedShape, witness: PorepWitness, expected: dict[str, Any]
) -> Assignment:
    assignment = assign(backend, shape, witness)
    assert values_digest(backend, assignment.inputs) == expected["inputs_sha256"]
    assert values_digest(backend, assignment.aux) == expected["aux_sha256"]
    return assignment


@pytest.mark.parametrize(
    ("name", "sector_size"),
    [*SMALL, *(pytest.param(*case, marks=pytest.mark.full("20 s a sector")) for case in OTHERS)],
)
def test_assignment_and_products(
    name: str, sector_size: int, golden: Path, backend: Backend, device: torch.device
) -> None:
    (expected,) = json.loads((golden / "porep_witness.json").read_text())[name]
    shape = porep_shape(sector_size)
    witness = witness_of(_c1(name, sector_size, backend, device), 0, device)
    assignment = _check_values(backend, shape, witness, expected)
    r1cs = porep_r1cs(shape)
    abc = products(backend, r1cs, assignment)
    rows = [values_digest(backend, x[:, : r1cs.n_rows]) for x in abc]
    assert rows == expected["abc_with_input_rows_sha256"]
    assert unsatisfied_row(backend, *abc) is None


@pytest.mark.full("a minute and 5 GB a partition of the largest")
@pytest.mark.parametrize(("name", "sector_size"), VALUES_ALONE)
def test_assignment(
    name: str, sector_size: int, golden: Path, backend: Backend, device: torch.device
) -> None:
    digests = json.loads((golden / "porep_witness.json").read_text())[name]
    c1 = _c1(name, sector_size, backend, device)
    for partition, expected in enumerate(digests):
        witness = witness_of(c1, partition, device)
        _check_values(backend, porep_shape(sector_size), witness, expected)


def _first_challenge(witness: PorepWitness) -> PorepWitness:
    def cut(paths: MerklePaths) -> MerklePaths:
        return MerklePaths(paths.indices[:1], tuple(x[:, :1] for x in paths.siblings))

    return replace(
        witness,
        challenges=witness.challenges[:1],
        data_leaves=witness.data_leaves[:, :1],
        data_paths=cut(witness.data_paths),
        parent_columns=witness.parent_columns[:, :1],
        paths=cut(witness.paths),
    )


def test_one_wrong_value_is_found_in_the_first_row_it_breaks(
    backend: Backend, device: torch.device
) -> None:
    shape = replace(porep_shape(2048), n_challenges=1)
    witness = _first_challenge(witness_of(parsed("sector2k_a"), 0, device))
    assignment = assign(backend, shape, witness)
    r1cs, wires = porep_r1cs(shape), challenge_wires(shape)
    # the label of layer 1: the row that packs it comes before all that take it
    place = wires.labels[0]
    rows, block = r1cs.block.c, r1cs.block
    column = block.input_columns + block.n_shared_aux + place
    first = int((rows.cols == column).argmax())
    row = r1cs.prologue.n_constraints + int(rows.starts.searchsorted(first, side="right")) - 1
    assignment.aux[:, r1cs.prologue.n_aux + place] ^= 1
    # of the key, no point is asked for before the products are checked
    lengths = expected_lengths(r1cs)
    no_key = cast(ProvingKey, SimpleNamespace(lengths=lengths, parts=lambda *_: nullcontext()))
    no_randomisers = cast(Randomisers, None)
    with pytest.raises(UnsatisfiedError, match=f"porep-2KiB: constraint {row} is not satisfied"):
        prove(
            backend,
            no_key,
            r1cs,
            lambda: assignment,
            no_randomisers,
            Timeline(),
            circuit="porep-2KiB",
        )


def test_public_inputs(backend: Backend, device: torch.device) -> None:
    (hexadecimal,) = reference("sector2k_a")["public_inputs_hex_le"]
    expected = [int.from_bytes(bytes.fromhex(x), "little") for x in hexadecimal]
    c1 = parsed("sector2k_a")
    (proofs,) = next(iter(c1["vanilla_proofs"].values()))
    challenges = []
    for proof in proofs:
        columns = proof["replica_column_proofs"]
        parents = [*columns["drg_parents"], *columns["exp_parents"]]
        nodes = [parent["column"]["index"] for parent in parents]
        challenges.append((columns["c_x"]["column"]["index"], nodes))
    replica_id, comm_d, comm_r = (
        int.from_bytes(bytes(c1[name]), "little") for name in ("replica_id", "comm_d", "comm_r")
    )
    assert public_inputs(replica_id, comm_d, comm_r, challenges) == expected
    inputs = assign(backend, porep_shape(2048), witness_of(c1, 0, device)).inputs
    assert unpack_mont(inputs, FR) == [1, *expected]


def test_a_witness_of_another_shape_is_refused(backend: Backend, device: torch.device) -> None:
    witness = witness_of(parsed("sector2k_a"), 0, device)
    with pytest.raises(LayoutError, match=r"must be \(2, 2, 18, .*, got \(2, 2, 6, \(8, 8\)\)"):
        assign(backend, porep_shape(8 << 20), witness)
    with pytest.raises(LayoutError, match="a PoRep witness of 2 challenges"):
        replace(witness, data_leaves=witness.data_leaves[:, :1])
    with pytest.raises(LayoutError, match="challenges are int64"):
        replace(witness, challenges=witness.challenges.int())
    with pytest.raises(LayoutError, match="paths of 2 challenges"):
        replace(witness, paths=witness.data_paths)
    with pytest.raises(LayoutError, match="siblings of level 0"):
        MerklePaths(witness.paths.indices, tuple(x[:, :1] for x in witness.paths.siblings))
    with pytest.raises(LayoutError, match="indices are int64"):
        MerklePaths(witness.paths.indices[..., :1], witness.paths.siblings)
