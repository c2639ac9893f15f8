"""Assignments of real PoSt jobs against the reference: every value, every product."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
import torch

from plain_r1cs import digest_of
from torchzk.backends import Backend
from torchzk.circuits.post_circuit import PostCircuit
from torchzk.circuits.post_shapes import post_shape
from torchzk.circuits.post_slots import PostSlots
from torchzk.errors import LayoutError
from torchzk.groth16.products import products, unsatisfied_row
from torchzk.groth16.r1cs import Assignment
from torchzk.ops.layout import pack_mont, unpack_mont
from torchzk.params.fields import FR

PARTITIONS = [
    ("sector2k_a_window1", 0),
    ("sector2k_a_winning", 0),
    ("sector2k_b_window3", 0),
    ("sector2k_b_window3", 1),
    ("sector2k_b_winning", 0),
]


@lru_cache(maxsize=4)
def _job(golden: Path, name: str) -> dict[str, Any]:
    job: dict[str, Any] = json.loads((golden / "jobs" / f"{name}.json").read_text())
    return job


def _circuit(golden: Path, name: str) -> PostCircuit:
    job = _job(golden, name)
    return PostCircuit(post_shape(job["kind"], job["sector_size"]))


def _slots(golden: Path, name: str, partition: int, device: torch.device) -> PostSlots:
    """Read the job without any check, apart from the package's own reader."""
    shape = _circuit(golden, name).shape
    proofs = _job(golden, name)["vanilla_proofs"]
    size = shape.sectors_per_partition
    sectors = proofs[partition * size : (partition + 1) * size]
    sectors += [sectors[-1]] * (size - len(sectors))
    bodies = [sector["vanilla_proof"]["sectors"][0] for sector in sectors]
    paths = [p["data"]["Single"] for body in bodies for p in body["inclusion_proofs"]]
    levels = [p["path"]["path"] for p in paths]
    s, c, depth = shape.n_slots, shape.n_challenges, len(levels[0])
    # winning PoSt repeats the sector's commitments in every slot
    each = s // size

    def numbers(values: list[list[int]], *batch: int) -> torch.Tensor:
        integers = [int.from_bytes(bytes(v), "little") for v in values]
        return pack_mont(integers, FR, device).view(8, *batch)

    def commitments(holders: list[dict[str, Any]], name: str) -> torch.Tensor:
        return numbers([holder[name] for holder in holders for _ in range(each)], s)

    return PostSlots(
        comm_r=commitments(sectors, "comm_r"),
        comm_c=commitments(bodies, "comm_c"),
        comm_r_last=commitments(bodies, "comm_r_last"),
        leaves=numbers([p["leaf"] for p in paths], s, c),
        indices=torch.tensor([[e["index"] for e in path] for path in levels], device=device).view(
            s, c, depth
        ),
        siblings=tuple(
            numbers([h for path in levels for h in path[i]["hashes"]], s, c, 7)
            for i in range(depth)
        ),
    )


def _assignment(
    backend: Backend, device: torch.device, golden: Path, name: str, partition: int
) -> Assignment:
    slots = _slots(golden, name, partition, device)
    return _circuit(golden, name).assignment(backend, slots)


@pytest.mark.parametrize(("name", "partition"), PARTITIONS)
def test_assignment_and_products(
    name: str, partition: int, golden: Path, backend: Backend, device: torch.device
) -> None:
    digests = json.loads((golden / "post_witness.json").read_text())[name][partition]
    r1cs = _circuit(golden, name).r1cs()
    assignment = _assignment(backend, device, golden, name, partition)
    assert digest_of(unpack_mont(assignment.inputs, FR)) == digests["inputs_sha256"]
    assert digest_of(unpack_mont(assignment.aux, FR)) == digests["aux_sha256"]
    abc = products(backend, r1cs, assignment)
    rows = [digest_of(unpack_mont(x[:, : r1cs.n_rows], FR)) for x in abc]
    assert rows == digests["abc_with_input_rows_sha256"]
    for x in abc:
        assert x.shape == (8, r1cs.domain.size)
        assert not x[:, r1cs.n_rows :].any()
    assert unsatisfied_row(backend, *abc) is None


def test_one_wrong_value_is_found_in_the_first_row_it_breaks(
    golden: Path, backend: Backend, device: torch.device
) -> None:
    name = "sector2k_a_window1"
    r1cs = _circuit(golden, name).r1cs()
    aux = _assignment(backend, device, golden, name, 0).aux
    inputs = _assignment(backend, device, golden, name, 0).inputs
    # comm_r of slot 1; its first row, which makes it an input, starts the slot
    aux[:, r1cs.block.n_aux + 2] ^= 1
    abc = products(backend, r1cs, Assignment(inputs, aux))
    assert unsatisfied_row(backend, *abc) == r1cs.block.n_constraints


def test_slots_of_another_shape_are_refused(
    golden: Path, backend: Backend, device: torch.device
) -> None:
    slots = _slots(golden, "sector2k_a_window1", 0, device)
    with pytest.raises(LayoutError, match=r"must be \(66, 1, \(8, 8\)\), got \(2, 10, \(8, 8\)\)"):
        PostCircuit(post_shape("winning", 2048)).assignment(backend, slots)
    with pytest.raises(LayoutError, match=r"must be \(2, 10, \(8, 8, 2\)\)"):
        PostCircuit(post_shape("window", 4096)).assignment(backend, slots)
