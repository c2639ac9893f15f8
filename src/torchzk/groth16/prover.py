"""One Groth16 proof: the quotient, five multi-scalar multiplications, and the final sums.

Source: spec/groth16.md sections 3 to 5; J. Groth, On the Size of Pairing-based Non-interactive
Arguments, section 3.2. For the same r and s the bytes are those of bellperson.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import torch

from torchzk.backends import Backend
from torchzk.errors import UnsatisfiedError
from torchzk.groth16.keys import QUERIES, ProvingKey, VerifyingKey
from torchzk.groth16.order import part_order
from torchzk.groth16.products import (
    MATRICES,
    product,
    products,
    unsatisfied_in_turn,
    unsatisfied_row,
)
from torchzk.groth16.proofs import Proof
from torchzk.groth16.query_sums import (
    FullScalars,
    Scalars,
    Sum,
    VariableScalars,
    values_of,
)
from torchzk.groth16.query_variables import query_variables
from torchzk.groth16.r1cs import Assignment, R1cs
from torchzk.groth16.room import Room
from torchzk.groth16.streams import Parts
from torchzk.params.curves import G1, G2, Point
from torchzk.params.fields import FR
from torchzk.params.host_points import sum_of_multiples
from torchzk.timeline import Timeline


# what holds secrets does not show them
@dataclass(frozen=True, repr=False)
class Randomisers:
    """The proof's r and s, canonical in [0, r). Zero knowledge rests on nobody knowing them."""

    r: int
    s: int

    @staticmethod
    def draw() -> Randomisers:
        """Uniform below the group order, from the system's generator."""
        return Randomisers(secrets.randbelow(FR.modulus), secrets.randbelow(FR.modulus))


def prove(
    backend: Backend,
    key: ProvingKey,
    r1cs: R1cs,
    assign: Callable[[], Assignment],
    randomisers: Randomisers,
    timeline: Timeline,
    *,
    circuit: str,
    room: Room | None = None,
) -> Proof:
    """Prove that an assignment satisfies `r1cs`: `query_sums`, whose arguments it has, `combine`.

    Args:
        randomisers: r and s.

    Returns:
        The proof, not yet verified.

    Raises:
        UnsatisfiedError: The assignment does not satisfy the circuit.
    """
    sums = query_sums(backend, key, r1cs, assign, timeline, circuit=circuit, room=room)
    return combine(key.vk, sums, randomisers, timeline)


def query_sums(
    backend: Backend,
    key: ProvingKey,
    r1cs: R1cs,
    assign: Callable[[], Assignment],
    timeline: Timeline,
    *,
    circuit: str,
    room: Room | None = None,
    check: Callable[[], None] = lambda: None,
) -> dict[str, Point]:
    """What the device does of a proof: the sum of every query's points times their scalars.

    Args:
        backend: The operations to use; the sums do not depend on it.
        key: Proving key of the circuit, its lengths already checked against it.
        r1cs: The circuit.
        assign: Computes the values of all variables, on the device to work on. Called once; where
            `room.in_turn` says so, again and again, so that they need not be kept.
        timeline: Gets a span a stage.
        circuit: The circuit's name, for errors.
        room: What may be taken of the device; by default `Room()`.
        check: Called before every stage; what it raises ends the proof there.

    Returns:
        The sums by the names of `QUERIES`, on the host.

    Raises:
        UnsatisfiedError: The assignment does not satisfy the circuit.
    """
    room = room or Room()
    stages = _Stages(timeline, check)
    assigned = _Assigned(assign)
    with stages.stage("witness"):
        device = assigned.get().aux.device
    order = part_order(key.lengths, room)
    with key.parts(order, device, min(room.early_slots, room.slots)) as parts:
        quotient = _quotient_in_turn if room.in_turn else _quotient
        # the last coefficient is zero
        scalars: dict[str, Scalars] = {
            "h": FullScalars(quotient(backend, r1cs, assigned, stages, circuit)[:, :-1])
        }
        others = partial(_other_scalars, backend, r1cs, assigned, stages, again=room.in_turn)
        if room.costs:
            # what it is made with may take the place of buffers that are still to come
            scalars |= others()
        parts.widen(room.slots)
        sums = {name: Sum(backend, curve, room) for name, curve in QUERIES.items()}
        for part in order:
            if part.query not in scalars:
                scalars |= others()
            rows = _next(parts, stages)
            n = key.lengths.of(part.query)
            with stages.stage(f"msm {part.query}"):
                scalars[part.query].add_to(sums[part.query], part, rows)
                if part.stop == n:
                    sums[part.query].finish()
                    del scalars[part.query]
                timeline.advance(part.stop / n)
            del rows
    return {name: sum_.point for name, sum_ in sums.items()}


def _other_scalars(
    backend: Backend, r1cs: R1cs, assigned: _Assigned, stages: _Stages, *, again: bool
) -> dict[str, Scalars]:
    """Those of all queries but h; `again` if the assignment is gone."""
    if again:
        with stages.stage("witness"):
            assigned.get()
    with stages.stage("classes"):
        values = values_of(backend, assigned.get())
        variables = query_variables(r1cs, values.aux.device)
        return {name: VariableScalars(values, found) for name, found in variables.items()}


def _next(parts: Parts, stages: _Stages) -> torch.Tensor:
    """The rows of the next part; the span is the time in which the device waits for them."""
    if parts.here:
        return parts.take()
    with stages.stage("wait for key"):
        return parts.take()


@dataclass(frozen=True)
class _Stages:
    """A span a stage, none of which begins once the proof must stop."""

    timeline: Timeline
    check: Callable[[], None]

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        self.check()
        with self.timeline.span(name):
            yield


class _Assigned:
    """An assignment that is computed when it is asked for, and kept until it is dropped."""

    def __init__(self, assign: Callable[[], Assignment]) -> None:
        self._assign = assign
        self._there: Assignment | None = None

    def get(self) -> Assignment:
        if self._there is None:
            self._there = self._assign()
        return self._there

    def drop(self) -> None:
        self._there = None


def _quotient(
    backend: Backend, r1cs: R1cs, assigned: _Assigned, stages: _Stages, circuit: str
) -> torch.Tensor:
    """The coefficients of h, canonical `[8, n]`, with all that they are made of at once."""
    with stages.stage("products"):
        a, b, c = products(backend, r1cs, assigned.get())
        _refuse(unsatisfied_row(backend, a, b, c), circuit)
    with stages.stage("quotient"):
        h = backend.quotient(a, b, c, r1cs.domain)
        del a, b, c
        backend.from_mont_at(h, None, h)
    return h


def _quotient_in_turn(
    backend: Backend, r1cs: R1cs, assigned: _Assigned, stages: _Stages, circuit: str
) -> torch.Tensor:
    """The same, with two vectors at a time, and no assignment while they are transformed."""

    def vector(name: str) -> torch.Tensor:
        made = product(backend, r1cs, assigned.get(), MATRICES.index(name))
        assigned.drop()
        return made

    with stages.stage("products"):
        _refuse(unsatisfied_in_turn(backend, r1cs, assigned.get()), circuit)
    with stages.stage("quotient"):
        h = backend.quotient_in_turn(vector, r1cs.domain)
        backend.from_mont_at(h, None, h)
    return h


def _refuse(row: int | None, circuit: str) -> None:
    if row is not None:
        raise UnsatisfiedError(circuit, row)


def combine(
    vk: VerifyingKey, sums: dict[str, Point], randomisers: Randomisers, timeline: Timeline
) -> Proof:
    """A proof from its query sums, by the host alone; not yet verified.

    A  = alpha + sum_a + r delta,  B = beta + sum_b + s delta (in both groups),
    C  = sum_l + sum_h + s A + r B1 - r s delta.
    """
    with timeline.span("final sums"):
        return _combine(vk, sums, randomisers)


def _combine(vk: VerifyingKey, sums: dict[str, Point], z: Randomisers) -> Proof:
    a = sum_of_multiples(G1, [(1, vk.alpha_g1), (1, sums["a"]), (z.r, vk.delta_g1)])
    b = sum_of_multiples(G2, [(1, vk.beta_g2), (1, sums["b_g2"]), (z.s, vk.delta_g2)])
    b_g1 = sum_of_multiples(G1, [(1, vk.beta_g1), (1, sums["b_g1"]), (z.s, vk.delta_g1)])
    terms = [(1, sums["l"]), (1, sums["h"]), (z.s, a), (z.r, b_g1), (-z.r * z.s, vk.delta_g1)]
    return Proof(a=a, b=b, c=sum_of_multiples(G1, terms))
