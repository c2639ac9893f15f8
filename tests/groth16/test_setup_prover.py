"""Setup and prover on a small circuit, against the formulas of the paper on integers."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
import torch

from plain_r1cs import row_terms
from replicated_r1cs import CIRCUITS, flat, replicated, values
from torchzk.backends import Backend
from torchzk.errors import ConfigError, UnsatisfiedError
from torchzk.groth16 import columns as columns_module
from torchzk.groth16 import setup
from torchzk.groth16.columns import columns
from torchzk.groth16.density import expected_lengths
from torchzk.groth16.keys import QUERIES, check_lengths
from torchzk.groth16.prover import Randomisers, prove
from torchzk.groth16.r1cs import Assignment, R1cs
from torchzk.groth16.room import Room
from torchzk.groth16.setup import lagrange_at, make_key, make_verifying_key, new_key
from torchzk.groth16.toxic_waste import DEV, ToxicWaste
from torchzk.groth16.verifier import verify
from torchzk.ops.layout import pack_mont, rows_to_points, unpack_mont
from torchzk.params import integers
from torchzk.params.curves import G1, G2, Curve, Point
from torchzk.params.domains import Domain
from torchzk.params.fields import FR
from torchzk.timeline import Span, Timeline

R = FR.modulus


def rows_of(index: int, r1cs: R1cs | None = None) -> list[dict[int, int]]:
    """The rows of A, B or C of a flat system, the appended input rows included."""
    r1cs = r1cs or flat()
    block = r1cs.block
    appended = [{i: 1} if index == 0 else {} for i in range(r1cs.n_inputs)]
    return row_terms(block, block.matrices[index]) + appended


def assigned(seed: int, device: torch.device) -> tuple[Assignment, list[int]]:
    """A satisfying assignment and its public inputs without ONE."""
    inputs, aux = values(seed)
    return Assignment(pack_mont(inputs, FR, device), pack_mont(aux, FR, device)), inputs[1:]


def lagrange(domain: Domain, tau: int) -> list[int]:
    """The basis at tau by its definition, a product over the other points."""
    points = [pow(domain.omega, j, R) for j in range(domain.size)]
    out = []
    for j, at in enumerate(points):
        top = bottom = 1
        for k, other in enumerate(points):
            if k != j:
                top, bottom = top * (tau - other) % R, bottom * (at - other) % R
        out.append(top * pow(bottom, -1, R) % R)
    return out


def test_lagrange_basis_is_its_definition(backend: Backend, device: torch.device) -> None:
    for log_n in (0, 1, 4):
        domain, tau = Domain(log_n), random.Random(log_n).randrange(R)
        assert unpack_mont(lagrange_at(backend, domain, tau, device), FR) == lagrange(domain, tau)


def test_a_tau_of_the_domain_is_refused(backend: Backend, device: torch.device) -> None:
    domain = Domain(3)
    with pytest.raises(ConfigError, match="tau"):
        lagrange_at(backend, domain, pow(domain.omega, 5, R), device)


@pytest.mark.parametrize("rows_at_once", [1, 7, 1 << 24])
@pytest.mark.parametrize("copies", [0, 1, 5])
@pytest.mark.parametrize("name", CIRCUITS)
def test_transposed_products_are_sums_over_rows(
    name: str,
    copies: int,
    rows_at_once: int,
    backend: Backend,
    device: torch.device,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(columns_module, "_ROWS_AT_ONCE", rows_at_once)
    system, flattened, _ = CIRCUITS[name]
    r1cs = system(copies)
    y = [random.Random(1).randrange(R) for _ in range(r1cs.domain.size)]
    weights = pack_mont(y, FR, device)
    for index in range(3):
        expected = [0] * (r1cs.n_inputs + r1cs.n_aux)
        for weight, row in zip(y, rows_of(index, flattened(copies)), strict=False):
            for variable, k in row.items():
                expected[variable] = (expected[variable] + weight * k) % R
        assert unpack_mont(columns(backend, r1cs, index, weights), FR) == expected


def test_key_holds_the_points_of_the_specification(backend: Backend, device: torch.device) -> None:
    r1cs, waste = replicated(), ToxicWaste(alpha=3, beta=5, gamma=7, delta=11, tau=13)
    key = make_key(backend, r1cs, waste, device, Timeline())
    basis = lagrange(r1cs.domain, waste.tau)
    n = r1cs.n_inputs + r1cs.n_aux
    u, v, w = ([0] * n for _ in range(3))
    for index, column in enumerate((u, v, w)):
        for weight, row in zip(basis, rows_of(index), strict=False):
            for variable, k in row.items():
                column[variable] += weight * k
    mixed = [5 * a + 3 * b + c for a, b, c in zip(u, v, w, strict=True)]
    by_gamma, by_delta = pow(7, -1, R), pow(11, -1, R)
    vanishing = pow(13, r1cs.domain.size, R) - 1
    scalars = {
        "h": [pow(13, i, R) * vanishing * by_delta for i in range(r1cs.domain.size - 1)],
        "l": [x * by_delta for x in mixed[r1cs.n_inputs :]],
        "a": [x for x in u if x % R],
        "b_g1": [x for x in v if x % R],
        "b_g2": [x for x in v if x % R],
    }
    for name, curve in QUERIES.items():
        got = rows_to_points(key.query(name, 0, key.lengths.of(name), device), curve)
        expected = [integers.mul(curve, x % R, curve.generator) for x in scalars[name]]
        assert got == expected, name
    ic = [x * by_gamma for x in mixed[: r1cs.n_inputs]]
    assert list(key.vk.ic) == [integers.mul(G1, x % R, G1.generator) for x in ic]
    assert key.vk.gamma_g2 == integers.mul(G2, 7, G2.generator)
    assert make_verifying_key(backend, r1cs, waste, device, Timeline()) == key.vk
    check_lengths(key, expected_lengths(r1cs), r1cs.n_inputs, "small")


def test_proofs_verify_and_only_for_their_inputs(backend: Backend, device: torch.device) -> None:
    r1cs = replicated()
    key = make_key(backend, r1cs, DEV, device, Timeline())
    assignment, public = assigned(1, device)
    proofs = [
        prove(backend, key, r1cs, lambda: assignment, z, Timeline(), circuit="small")
        for z in (Randomisers(0, 0), Randomisers(1, R - 1), Randomisers.draw())
    ]
    assert len({p.to_bytes() for p in proofs}) == len(proofs)
    for proof in proofs:
        assert verify(key.vk, proof, public)
        assert not verify(key.vk, proof, [*public[:-1], (public[-1] + 1) % R])


def test_the_same_randomisers_give_the_same_bytes(backend: Backend, device: torch.device) -> None:
    r1cs = replicated()
    key = make_key(backend, r1cs, DEV, device, Timeline())
    assignment, _ = assigned(2, device)
    z = Randomisers(5, 6)
    one, *others = (
        prove(backend, key, r1cs, lambda: assignment, z, Timeline(), circuit="small", room=room)
        for room in (None, None, Room(g1_points=3, g2_points=2, scratch_bytes=1))
    )
    for other in others:
        assert one.to_bytes() == other.to_bytes()


def test_points_come_as_the_room_says(
    backend: Backend, device: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    r1cs = replicated()
    key = make_key(backend, r1cs, DEV, device, Timeline())
    assignment, _ = assigned(2, device)
    asked: list[tuple[str, int]] = []
    limits: set[int] = set()
    msm = backend.msm

    def watched(scalars: torch.Tensor, points: torch.Tensor, curve: Curve, **room: int) -> Point:
        asked.append((curve.name, len(points)))
        limits.update(room.values())
        return msm(scalars, points, curve, **room)

    monkeypatch.setattr(backend, "msm", watched)
    room = Room(g1_points=9, g2_points=7, scratch_bytes=1 << 22)
    prove(
        backend,
        key,
        r1cs,
        lambda: assignment,
        Randomisers(5, 6),
        Timeline(),
        circuit="s",
        room=room,
    )
    expected = []
    for name, curve in QUERIES.items():
        n, step = key.lengths.of(name), 9 if curve is G1 else 7
        expected += [(curve.name, min(step, n - start)) for start in range(0, n, step)]
    assert asked == expected and limits == {1 << 22}


def test_a_false_assignment_is_named_by_its_row(backend: Backend, device: torch.device) -> None:
    r1cs = replicated()
    key = make_key(backend, r1cs, DEV, device, Timeline())
    assignment, _ = assigned(2, device)
    # w of copy 2: two rows of the prologue and three of each copy, of which the last defines it
    row = 2 + 3 * 2 + 2
    assignment.aux[0, 2 + 3 * 2 + 2] ^= 1
    with pytest.raises(UnsatisfiedError, match=f"small: constraint {row} ") as caught:
        prove(
            backend, key, r1cs, lambda: assignment, Randomisers(1, 2), Timeline(), circuit="small"
        )
    assert caught.value.row == row


def test_a_key_is_made_piece_by_piece(
    backend: Backend, device: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    r1cs = replicated()
    whole = make_key(backend, r1cs, DEV, device, Timeline())
    monkeypatch.setattr(setup, "_POINTS_AT_ONCE", {"cpu": 10, "cuda": 10})
    spans: list[Span] = []
    done: list[float] = []
    timeline = Timeline(on_close=spans.append, on_advance=done.append)
    key = new_key(backend, r1cs, DEV, device, timeline)
    assert (key.vk, key.lengths) == (whole.vk, whole.lengths)
    name, first = next(key.pieces)
    assert name == "h" and torch.equal(first, whole.queries["h"][:10])
    pieces = [(name, first), *key.pieces]
    assert max(len(rows) for _, rows in pieces) == 10
    for query, rows in whole.queries.items():
        assert torch.equal(torch.cat([part for name, part in pieces if name == query]), rows)
    assert [span.name for span in spans[1:]] == [f"setup: {query}" for query in whole.queries]
    assert done.count(1.0) == 5 and sum(a > b for a, b in pairwise(done)) == 4
    # who stops half-way leaves no span open
    spans.clear()
    key = new_key(backend, r1cs, DEV, device, timeline)
    next(key.pieces)
    key.pieces.close()
    assert [(span.name, span.failed) for span in spans] == [
        ("setup: polynomials", False),
        ("setup: h", True),
    ]
