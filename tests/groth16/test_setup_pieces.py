"""Keys in the making: long vectors in pieces, and the toxic waste that suits no circuit."""

from __future__ import annotations

from collections import defaultdict
from random import Random

import pytest
import torch

from plain_r1cs import row_terms
from replicated_r1cs import flat, replicated
from torchzk.backends import Backend
from torchzk.errors import ConfigError
from torchzk.groth16 import setup
from torchzk.groth16.columns import add_columns, columns
from torchzk.groth16.setup import lagrange_at, make_key, new_key
from torchzk.groth16.toxic_waste import DEV, ToxicWaste
from torchzk.ops.layout import pack_mont, unpack_mont
from torchzk.params.domains import Domain
from torchzk.params.fields import FR
from torchzk.timeline import Timeline

R = FR.modulus


@pytest.mark.parametrize("rows", [1, 3, 8])
def test_the_basis_is_the_same_in_pieces(
    rows: int, backend: Backend, device: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    domain, tau = Domain(4), Random(rows).randrange(R)
    whole = lagrange_at(backend, domain, tau, device)
    monkeypatch.setattr(setup, "_ROWS_AT_ONCE", rows)
    assert torch.equal(lagrange_at(backend, domain, tau, device), whole)
    # its values add up to 1
    assert sum(unpack_mont(whole, FR)) % R == 1


@pytest.mark.parametrize("index", [0, 1, 2])
def test_columns_are_added_to_what_is_there(
    index: int, backend: Backend, device: torch.device
) -> None:
    r1cs, draw = replicated(), Random(index)
    y = pack_mont([draw.randrange(R) for _ in range(r1cs.domain.size)], FR, device)
    n, factor = r1cs.n_inputs + r1cs.n_aux, draw.randrange(R)
    before = [draw.randrange(R) for _ in range(n)]
    total = pack_mont(before, FR, device)
    add_columns(backend, r1cs, index, y, total, factor)
    alone = unpack_mont(columns(backend, r1cs, index, y), FR)
    expected = [(x + factor * c) % R for x, c in zip(before, alone, strict=True)]
    assert unpack_mont(total, FR) == expected


def test_pieces_know_their_place(
    backend: Backend, device: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    r1cs = replicated()
    whole = make_key(backend, r1cs, DEV, device, Timeline())
    monkeypatch.setattr(setup, "_POINTS_AT_ONCE", {"cpu": 16, "cuda": 16})
    seen: dict[str, int] = defaultdict(int)
    for name, start, rows in new_key(backend, r1cs, DEV, device, Timeline()).placed():
        assert start == seen[name]
        # pieces of G2, whose points are twice as long, have half as many
        assert 1 <= len(rows) <= (8 if name == "b_g2" else 16)
        assert torch.equal(whole.queries[name][start : start + len(rows)], rows)
        seen[name] += len(rows)
    assert {name: whole.lengths.of(name) for name in whole.queries} == dict(seen)
    assert whole.lengths.n_bytes == sum(rows.nbytes for rows in whole.queries.values())


def test_a_tau_that_makes_a_point_vanish_is_refused(backend: Backend, device: torch.device) -> None:
    r1cs = flat(1)
    rows = row_terms(r1cs.block, r1cs.block.a)
    where: dict[int, list[int]] = defaultdict(list)
    for j, row in enumerate(rows):
        for variable in row:
            where[variable].append(j)
    # of a variable in two rows, c1 w1 / (tau - w1) + c2 w2 / (tau - w2) = 0
    i, (j, k) = next((i, js) for i, js in where.items() if len(js) == 2 and i >= r1cs.n_inputs)
    c1, c2 = rows[j][i], rows[k][i]
    w1, w2 = (pow(r1cs.domain.omega, at, R) for at in (j, k))
    tau = w1 * w2 * (c1 + c2) * pow(c1 * w1 + c2 * w2, -1, R) % R
    waste = ToxicWaste(alpha=3, beta=5, gamma=7, delta=11, tau=tau)
    why = r"tau is a root of a polynomial of the circuit: query a has \d+ points instead of \d+"
    with pytest.raises(ConfigError, match=why):
        make_key(backend, r1cs, waste, device, Timeline())
