"""One Groth16 proof: the quotient, five multi-scalar multiplications, and the final sums.

Source: spec/groth16.md sections 3 to 5; J. Groth, On the Size of Pairing-based Non-interactive
Arguments, section 3.2. For the same r and s the bytes are those of bellperson.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass

import torch

from torchzk.backends import Backend
from torchzk.errors import UnsatisfiedError
from torchzk.groth16.density import density
from torchzk.groth16.keys import QUERIES, Proof, ProvingKey
from torchzk.groth16.products import products, unsatisfied_row
from torchzk.groth16.r1cs import Assignment, R1cs
from torchzk.params import integers
from torchzk.params.curves import G1, G2, Curve, Point
from torchzk.params.fields import FR
from torchzk.timeline import Timeline


@dataclass(frozen=True)
class Room:
    """How much of the device a multi-scalar multiplication may take; the sums do not depend on it.

    The defaults suit a CPU; a GPU is idle half the time on so few points.
    """

    g1_points: int = 1 << 20
    """Points of a query in G1 that are on the device at a time."""
    g2_points: int = 1 << 20
    scratch_bytes: int = 1 << 29
    """Scratch of one multiplication, the points not counted."""

    def points(self, curve: Curve) -> int:
        """Points of a query in `curve` that are on the device at a time."""
        return self.g1_points if curve is G1 else self.g2_points


@dataclass(frozen=True)
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
    assignment: Assignment,
    randomisers: Randomisers,
    timeline: Timeline,
    *,
    circuit: str,
    room: Room | None = None,
) -> Proof:
    """Prove that `assignment` satisfies `r1cs`.

    Args:
        backend: The operations to use; the bytes do not depend on it.
        key: Proving key of the circuit, its lengths already checked against it.
        r1cs: The circuit.
        assignment: Values of all variables, on the device to work on.
        randomisers: r and s.
        timeline: Gets a span a stage.
        circuit: The circuit's name, for errors.
        room: What a multi-scalar multiplication may take; by default `Room()`.

    Returns:
        The proof, not yet verified.

    Raises:
        UnsatisfiedError: The assignment does not satisfy the circuit.
    """
    with timeline.span("products"):
        a, b, c = products(backend, r1cs, assignment)
        row = unsatisfied_row(backend, a, b, c)
        if row is not None:
            raise UnsatisfiedError(circuit, row)
    with timeline.span("quotient"):
        h = backend.from_mont(backend.quotient(a, b, c, r1cs.domain), FR)[:, :-1]
        del a, b, c
    with timeline.span("scalars"):
        scalars = _query_scalars(backend, r1cs, assignment)
    sums: dict[str, Point] = {}
    for name in QUERIES:
        with timeline.span(f"msm {name}"):
            # each query's scalars are dropped as soon as its sum is known
            values = h if name == "h" else scalars.pop(name)
            sums[name] = _query_sum(backend, key, name, values, room or Room(), timeline)
    with timeline.span("final sums"):
        return _combine(key, sums, randomisers)


def _query_scalars(backend: Backend, r1cs: R1cs, assignment: Assignment) -> dict[str, torch.Tensor]:
    """The canonical scalars `[8, n]` of the queries l, a, b_g1 and b_g2, in the key's order."""
    device = assignment.aux.device
    inputs = backend.from_mont(assignment.inputs, FR)
    aux = backend.from_mont(assignment.aux, FR)
    dense = density(r1cs)
    a_aux, b_inputs, b_aux = (
        torch.from_numpy(bits).to(device) for bits in (dense.a_aux, dense.b_inputs, dense.b_aux)
    )
    b = torch.cat((inputs[:, b_inputs], aux[:, b_aux]), dim=1)
    return {"l": aux, "a": torch.cat((inputs, aux[:, a_aux]), dim=1), "b_g1": b, "b_g2": b}


def _query_sum(
    backend: Backend,
    key: ProvingKey,
    name: str,
    scalars: torch.Tensor,
    room: Room,
    timeline: Timeline,
) -> Point:
    """Sum of scalar_i times point i of a query, as many points at once as there is room for."""
    curve = QUERIES[name]
    n, step = scalars.shape[1], room.points(curve)
    total: Point = None
    for start in range(0, n, step):
        stop = min(start + step, n)
        points = key.query(name, start, stop, scalars.device)
        part = backend.msm(
            scalars[:, start:stop].contiguous(), points, curve, limit_bytes=room.scratch_bytes
        )
        total = integers.add(curve, total, part)
        timeline.advance(stop / n)
    return total


def _combine(key: ProvingKey, sums: dict[str, Point], z: Randomisers) -> Proof:
    """A, B and C from the query sums.

    A  = alpha + sum_a + r delta,  B = beta + sum_b + s delta (in both groups),
    C  = sum_l + sum_h + s A + r B1 - r s delta.
    """
    vk = key.vk

    def plus(curve: Curve, *terms: Point) -> Point:
        total: Point = None
        for term in terms:
            total = integers.add(curve, total, term)
        return total

    def times(curve: Curve, k: int, point: Point) -> Point:
        return integers.mul(curve, k % FR.modulus, point)

    a = plus(G1, vk.alpha_g1, sums["a"], times(G1, z.r, vk.delta_g1))
    b = plus(G2, vk.beta_g2, sums["b_g2"], times(G2, z.s, vk.delta_g2))
    b_g1 = plus(G1, vk.beta_g1, sums["b_g1"], times(G1, z.s, vk.delta_g1))
    c = plus(
        G1,
        sums["l"],
        sums["h"],
        times(G1, z.s, a),
        times(G1, z.r, b_g1),
        times(G1, -z.r * z.s, vk.delta_g1),
    )
    return Proof(a=a, b=b, c=c)
