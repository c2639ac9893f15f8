"""A typed C1 output becomes the same witness as one taken straight from its JSON."""

from __future__ import annotations

from dataclasses import fields

import pytest
import torch

from c1_samples import SIZES, parsed, sample
from porep_samples import witness_of
from torchzk.backends import Backend
from torchzk.circuits.c1_file import read_c1
from torchzk.circuits.porep_shapes import porep_shape
from torchzk.circuits.porep_slots import porep_witness
from torchzk.circuits.porep_witness import MerklePaths


@pytest.mark.parametrize("name", SIZES)
def test_witness(backend: Backend, device: torch.device, name: str) -> None:
    c1, output = read_c1(sample(f"{name}_c1.json"), porep_shape(SIZES[name])), parsed(name)
    for partition in {0, c1.n_partitions - 1}:
        got = porep_witness(backend, device, c1, partition)
        expected = witness_of(output, partition, device)
        for field in fields(expected):
            a, b = getattr(got, field.name), getattr(expected, field.name)
            if isinstance(b, MerklePaths):
                assert torch.equal(a.indices, b.indices)
                assert len(a.siblings) == len(b.siblings)
                assert all(map(torch.equal, a.siblings, b.siblings))
            else:
                assert torch.equal(a, b)
