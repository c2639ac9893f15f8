"""Sizes of a replicated system, its density, and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from replicated_r1cs import flat, replicated
from torchzk.errors import LayoutError
from torchzk.groth16.density import density
from torchzk.groth16.r1cs import Assignment, R1cs


@pytest.mark.parametrize("copies", [0, 1, 5])
def test_sizes(copies: int) -> None:
    for r1cs in (replicated(copies), flat(copies)):
        assert r1cs.n_inputs == 2 + copies
        assert r1cs.n_aux == 2 + 3 * copies
        assert r1cs.n_constraints == 2 + 3 * copies
        assert r1cs.n_rows == 4 + 4 * copies
        assert r1cs.nnz == (2 + 4 * copies, 2 + 4 * copies, 3 + 4 * copies)
        assert r1cs.domain.size >= r1cs.n_rows > r1cs.domain.size // 2


@pytest.mark.parametrize("copies", [0, 1, 5])
def test_density_of_a_replicated_system(copies: int) -> None:
    got, expected = density(replicated(copies)), density(flat(copies))
    for name in ("a_aux", "b_inputs", "b_aux"):
        assert np.array_equal(getattr(got, name), getattr(expected, name)), name
    # x and y, then u, v, w of each copy
    assert got.a_aux.tolist() == [True, False] + [True, True, False] * copies
    assert got.b_inputs.tolist() == [True, False] + [False] * copies
    assert got.b_aux.tolist() == [True, copies > 0] + [True, False, False] * copies


def test_a_block_must_share_what_its_prologue_has() -> None:
    r1cs = replicated()
    with pytest.raises(LayoutError, match="the prologue has others"):
        R1cs(flat().block, r1cs.block, 1)
    with pytest.raises(LayoutError, match="shares ONE and nothing else"):
        R1cs(r1cs.block, r1cs.block, 1)


def test_an_assignment_of_another_length_is_refused() -> None:
    r1cs = replicated()
    inputs = torch.zeros(8, r1cs.n_inputs, dtype=torch.int32)
    aux = torch.zeros(8, r1cs.n_aux, dtype=torch.int32)
    Assignment(inputs, aux).check(r1cs)
    with pytest.raises(LayoutError, match="7 inputs and 17 aux expected"):
        Assignment(inputs, aux[:, 1:]).check(r1cs)
    with pytest.raises(LayoutError, match="int32"):
        Assignment(inputs, aux.to(torch.int64)).check(r1cs)
