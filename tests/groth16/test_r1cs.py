"""Sizes of a replicated system, its density, and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from replicated_r1cs import CIRCUITS, flat, replicated, replicated_imports
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
@pytest.mark.parametrize("name", CIRCUITS)
def test_density_is_that_of_the_flat_system(name: str, copies: int) -> None:
    system, flattened, _ = CIRCUITS[name]
    got, expected = density(system(copies)), density(flattened(copies))
    for field in ("a_aux", "b_inputs", "b_aux"):
        here, there = (getattr(x, field).written_out() for x in (got, expected))
        assert np.array_equal(here, there) and getattr(got, field).count == there.sum(), field


@pytest.mark.parametrize("copies", [0, 1, 5])
def test_density_of_a_replicated_system(copies: int) -> None:
    got = density(replicated(copies))
    # x and y, then u, v, w of each copy
    assert got.a_aux.written_out().tolist() == [True, False] + [True, True, False] * copies
    assert got.b_inputs.written_out().tolist() == [True, False] + [False] * copies
    assert got.b_aux.written_out().tolist() == [True, copies > 0] + [True, False, False] * copies


@pytest.mark.parametrize("copies", [0, 1, 3, 5])
def test_an_imported_variable_is_dense_if_any_copy_imports_it(copies: int) -> None:
    dense = density(replicated_imports(copies))
    a_aux, b_aux = dense.a_aux.written_out(), dense.b_aux.written_out()
    # the squares of each copy, all of which stand in A and in B
    imported = [set(), {0, 1}, {0, 1, 2}, {0, 1, 2, 3}, {0, 1, 2, 3}, {0, 1, 2, 3}][copies]
    assert b_aux[:4].tolist() == [j in imported for j in range(4)]
    # the sum of the squares has them all in A; then their roots, the sum, and u of each copy
    assert a_aux.tolist() == [True] * 8 + [copies > 0] + [True] * copies
    assert b_aux[4:].tolist() == [True] * 4 + [False] * (1 + copies)


def test_imports_that_do_not_fit_are_refused() -> None:
    r1cs = replicated_imports()
    imports = r1cs.imports

    def with_first(pair: tuple[int, int]) -> R1cs:
        changed = imports.copy()
        changed[0] = pair
        return R1cs(r1cs.prologue, r1cs.block, r1cs.copies, changed)

    assert np.array_equal(with_first((0, 1)).imports, imports)
    for pair in ((0, 9), (-1, 0)):
        with pytest.raises(LayoutError, match="below the prologue's 9 aux"):
            with_first(pair)
    with pytest.raises(LayoutError, match="imports one variable twice"):
        with_first((3, 3))
    with pytest.raises(LayoutError, match="both shared and imported"):
        with_first((0, 8))
    with pytest.raises(LayoutError, match=r"imports \(5, 2\) expected, got \(5, 0\)"):
        R1cs(r1cs.prologue, r1cs.block, r1cs.copies)


def test_a_system_without_imports_has_an_empty_table() -> None:
    assert replicated(3).imports.shape == (3, 0)


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
