"""A z, B z, C z of a replicated system against Python integers on the flat one."""

from __future__ import annotations

import pytest
import torch

from plain_r1cs import plain_products
from replicated_r1cs import CIRCUITS, replicated, values
from torchzk.backends import Backend
from torchzk.groth16 import products as module
from torchzk.groth16.products import products, unsatisfied_in_turn, unsatisfied_row
from torchzk.groth16.r1cs import Assignment
from torchzk.ops.layout import pack_mont, unpack_mont
from torchzk.params.fields import FR


def _assignment(inputs: list[int], aux: list[int], device: torch.device) -> Assignment:
    return Assignment(pack_mont(inputs, FR, device), pack_mont(aux, FR, device))


@pytest.mark.parametrize("copies", [0, 1, 5])
@pytest.mark.parametrize("name", CIRCUITS)
def test_products(name: str, copies: int, backend: Backend, device: torch.device) -> None:
    system, flat, satisfying = CIRCUITS[name]
    inputs, aux = satisfying(1, copies)
    # not a satisfied system: every product counts
    aux[0] += 1
    r1cs = system(copies)
    got = products(backend, r1cs, _assignment(inputs, aux, device))
    expected = plain_products(flat(copies).block, inputs + aux)
    zeros = [0] * (r1cs.domain.size - r1cs.n_rows)
    appended = (inputs, [0] * len(inputs), [0] * len(inputs))
    for x, rows, last in zip(got, expected, appended, strict=True):
        assert unpack_mont(x, FR) == rows + last + zeros


@pytest.mark.parametrize("name", CIRCUITS)
def test_a_satisfied_system_has_no_unsatisfied_row(
    name: str, backend: Backend, device: torch.device
) -> None:
    system, _, satisfying = CIRCUITS[name]
    assignment = _assignment(*satisfying(2), device)
    assert unsatisfied_row(backend, *products(backend, system(), assignment)) is None
    assert unsatisfied_in_turn(backend, system(), assignment) is None


@pytest.mark.parametrize("at_once", [1, 7, 1 << 22])
@pytest.mark.parametrize(
    ("place", "row"),
    # aux: x, y, then u, v, w of each copy; rows: two, then three a copy
    [(0, 0), (1, 1), (2, 2), (3, 2), (4, 4), (8, 8), (16, 16)],
)
def test_the_first_unsatisfied_row(
    place: int,
    row: int,
    at_once: int,
    backend: Backend,
    device: torch.device,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "ROWS_AT_ONCE", at_once)
    inputs, aux = values(3)
    aux[place] = (aux[place] + 1) % FR.modulus
    assignment = _assignment(inputs, aux, device)
    assert unsatisfied_row(backend, *products(backend, replicated(), assignment)) == row
    assert unsatisfied_in_turn(backend, replicated(), assignment) == row
