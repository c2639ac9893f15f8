"""The recorder: numbering, merging, splicing."""

from __future__ import annotations

import pytest

from plain_r1cs import alone, row_terms
from r1cs_digest import digest
from torchzk.circuits.gadgets import poseidon
from torchzk.circuits.recorder import ONE, ConstraintSystem, linear
from torchzk.params.fields import FR
from torchzk.params.poseidon import Poseidon


def test_numbers_inputs_and_aux_apart_and_sorts_terms_inputs_first() -> None:
    cs = ConstraintSystem()
    x = cs.alloc()
    i = cs.alloc_input()
    y = cs.alloc()
    cs.enforce({y: 2, x: 3, i: 5, ONE: 7}, {}, {x: 1})
    block = cs.block()
    assert (block.n_inputs, block.n_aux, block.n_columns) == (1, 2, 4)
    assert block.a.cols.tolist() == [0, 1, 2, 3]
    assert row_terms(block, block.a) == [{0: 7, 1: 5, 2: 3, 3: 2}]
    assert block.b.starts.tolist() == [0, 0]
    assert row_terms(block, block.c) == [{2: 1}]


def test_drops_what_is_zero_modulo_r_and_reduces_the_rest() -> None:
    cs = ConstraintSystem()
    x, y = cs.alloc_many(2)
    cs.enforce({x: FR.modulus, y: -1}, linear((x, 1), (x, -1)), linear((y, 1), (y, 1)))
    block = cs.block()
    assert row_terms(block, block.a) == [{2: FR.modulus - 1}]
    assert row_terms(block, block.b) == [{}]
    assert row_terms(block, block.c) == [{2: 2}]
    assert 0 not in block.table


def test_a_spliced_template_is_what_recording_in_place_gives() -> None:
    instance = Poseidon.merkle(2)
    spliced, direct = ConstraintSystem(), ConstraintSystem()
    for cs, hash_ in ((spliced, poseidon.poseidon), (direct, poseidon._record)):
        i = cs.alloc_input()
        x, y = cs.alloc_many(2)
        cs.enforce({x: 1}, {y: 1}, {i: 4})
        # given out of order, so that the terms have to be sorted again
        first = hash_(cs, [y, x], instance)
        cs.enforce({first: 1}, {ONE: 1}, {i: 1})
        last = hash_(cs, [i, first], instance)
        cs.enforce({last: 1}, {ONE: 1}, {x: 9})
    assert digest(alone(spliced)) == digest(alone(direct))
    assert alone(spliced).nnz == alone(direct).nnz


def test_a_hash_of_one_variable_twice_merges_its_terms() -> None:
    cs = ConstraintSystem()
    x = cs.alloc()
    poseidon.merkle(cs, [x, x])
    block = cs.block()
    assert block.n_constraints == Poseidon.merkle(2).n_wires
    for matrix in block.matrices:
        for row in range(block.n_constraints):
            cols = matrix.cols[matrix.starts[row] : matrix.starts[row + 1]].tolist()
            assert cols == sorted(set(cols))


def test_splice_refuses_equal_or_missing_variables() -> None:
    inner = ConstraintSystem()
    inner.alloc_many(2)
    template = inner.template(2)
    cs = ConstraintSystem()
    x, y = cs.alloc_many(2)
    for given in ([x, x], [x], [x, y, ONE]):
        with pytest.raises(ValueError, match="2 distinct variables"):
            cs.splice(template, given)


def test_a_template_has_no_inputs() -> None:
    cs = ConstraintSystem()
    cs.alloc_input()
    with pytest.raises(ValueError, match="no inputs"):
        cs.template(0)
