"""Proving and verifying keys from known toxic waste: for development, never for a network.

Source: spec/groth16.md section 4; J. Groth, On the Size of Pairing-based Non-interactive
Arguments, section 3.2. Who knows the toxic waste can prove anything under these keys.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass

import torch

from torchzk.backends import Backend
from torchzk.errors import ConfigError, KeyFileError
from torchzk.groth16.columns import add_columns, columns
from torchzk.groth16.density import expected_lengths
from torchzk.groth16.keys import QUERIES, MemoryKey, Placed, QueryLengths, VerifyingKey, filled
from torchzk.groth16.r1cs import R1cs
from torchzk.groth16.streams import steps
from torchzk.groth16.toxic_waste import ToxicWaste
from torchzk.ops.layout import pack_mont, rows_to_points
from torchzk.params.curves import G1, G2, Curve
from torchzk.params.domains import Domain
from torchzk.params.fields import FR
from torchzk.params.host_points import scalar_mul
from torchzk.timeline import Timeline

_POINTS_AT_ONCE = {"cpu": 1 << 18, "cuda": 1 << 22}
"""Points of G1 made at a time, twice those of G2: some seconds of a core's work; and on CUDA so
many that a table of multiples, which every call makes anew, costs little beside them."""
_ROWS_AT_ONCE = 1 << 22
"""Elements of a long vector that are worked on at a time, which bounds what is beside it."""


def lagrange_at(backend: Backend, domain: Domain, tau: int, device: torch.device) -> torch.Tensor:
    """The Lagrange basis of `domain` at `tau`: `[8, n]`, Montgomery form.

    L_j(tau) = (tau^n - 1) / n * omega^j / (tau - omega^j).

    Raises:
        ConfigError: `tau` is in the domain, which would make every proof the same.
    """
    r, n = FR.modulus, domain.size
    vanishing = (pow(tau, n, r) - 1) % r
    if vanishing == 0:
        raise ConfigError(
            "toxic waste: tau is a root of unity of the circuit's domain; choose another"
        )
    factor, minuend = vanishing * pow(n, -1, r) % r, pack_mont([tau], FR, device)
    out = torch.empty(FR.n_limbs, n, dtype=torch.int32, device=device)
    start = 0
    for powers in _powers(backend, domain.omega, n, 1, _ROWS_AT_ONCE, device):
        difference = backend.sub(minuend.expand_as(powers), powers, FR)
        terms = backend.mont_mul(powers, backend.batch_inverse(difference, FR), FR)
        stop = start + powers.shape[1]
        out[:, start:stop] = backend.scale(terms, factor, FR)
        start = stop
    return out


def _powers(
    backend: Backend, base: int, n: int, first: int, step: int, device: torch.device
) -> Iterator[torch.Tensor]:
    """first * base^i for i below n, `step` at a time: `[8, step]`, Montgomery form."""
    r = FR.modulus
    one = pack_mont([1], FR, device).expand(-1, min(step, n)).contiguous()
    powers = backend.coset_scale(one, base)
    for start in range(0, n, step):
        factor = first * pow(base, start, r) % r
        yield backend.scale(powers[:, : min(step, n - start)], factor, FR)


@dataclass(frozen=True)
class NewKey:
    """A proving key in the making: what is known at once, and the points as they are made."""

    vk: VerifyingKey
    lengths: QueryLengths
    pieces: Generator[tuple[str, torch.Tensor], None, None]
    """(query, rows) in the order of a parameter file, as `params_file.write_params` takes them.

    Can be gone through once; a query comes in any number of pieces.
    """

    def placed(self) -> Iterator[Placed]:
        """The pieces, each with the index of its first point."""
        done = dict.fromkeys(QUERIES, 0)
        for name, rows in self.pieces:
            yield name, done[name], rows
            done[name] += len(rows)


def new_key(
    backend: Backend, r1cs: R1cs, waste: ToxicWaste, device: torch.device, timeline: Timeline
) -> NewKey:
    """The proving key of a constraint system, piece by piece on `device`, never whole.

    The same numbers as bellperson's generator gives for the same toxic waste and the standard
    generators of G1 and G2. Two vectors are there at a time, the Lagrange basis and the columns of
    one query.

    Raises:
        ConfigError: The toxic waste does not suit the circuit.
        KeyFileError: An auxiliary variable is in no constraint, so its l point is the identity.
    """
    with timeline.span("setup: polynomials"):
        lagrange = lagrange_at(backend, r1cs.domain, waste.tau, device)
        mixed = _mixed_columns(backend, r1cs, waste, lagrange)
        if _has_zero(mixed[:, r1cs.n_inputs :]):
            raise KeyFileError("an auxiliary variable of the circuit is in no constraint")
        vk = _verifying_key(backend, waste, mixed[:, : r1cs.n_inputs])
    lengths = expected_lengths(r1cs)
    scalars = _scalars(backend, r1cs, waste, [lagrange, mixed])
    return NewKey(vk, lengths, _points_of(backend, lengths, scalars, timeline))


def _points_of(
    backend: Backend,
    lengths: QueryLengths,
    scalars: Iterator[Iterator[torch.Tensor]],
    timeline: Timeline,
) -> Generator[tuple[str, torch.Tensor], None, None]:
    """The points of every query, whose scalars come in the queries' order."""
    for name, values in zip(QUERIES, scalars, strict=True):
        n, done = lengths.of(name), 0
        with timeline.span(f"setup: {name}"):
            for piece in values:
                if piece.shape[1] == 0:
                    continue
                done += piece.shape[1]
                yield name, _points(backend, piece, QUERIES[name])
                timeline.advance(done / n)
            if done != n:
                # bellperson would leave the point out; the chance is 2^-220 for a random tau
                raise ConfigError(
                    f"toxic waste: tau is a root of a polynomial of the circuit: query {name} has "
                    f"{done:,} points instead of {n:,}; choose another"
                )


def _scalars(
    backend: Backend, r1cs: R1cs, waste: ToxicWaste, vectors: list[torch.Tensor]
) -> Iterator[Iterator[torch.Tensor]]:
    """For each query in order the scalars of its points, in pieces `[8, k]` in Montgomery form.

    Args:
        vectors: The Lagrange basis, and what `_mixed_columns` gives; emptied.
    """
    r, n = FR.modulus, r1cs.domain.size
    mixed, lagrange = vectors.pop(), vectors.pop()
    at_once = {c: _POINTS_AT_ONCE[lagrange.device.type] // c.degree for c in (G1, G2)}
    by_delta = pow(waste.delta, -1, r)
    first = (pow(waste.tau, n, r) - 1) * by_delta % r
    yield _powers(backend, waste.tau, n - 1, first, at_once[G1], lagrange.device)
    l = mixed[:, r1cs.n_inputs :]  # noqa: E741
    yield (backend.scale(piece, by_delta, FR) for piece in _split(l, at_once[G1]))
    del l, mixed
    u = columns(backend, r1cs, 0, lagrange)
    yield (_non_zero(piece) for piece in _split(u, at_once[G1]))
    del u
    v = columns(backend, r1cs, 1, lagrange)
    del lagrange
    for curve in (G1, G2):
        yield (_non_zero(piece) for piece in _split(v, at_once[curve]))


def make_key(
    backend: Backend, r1cs: R1cs, waste: ToxicWaste, device: torch.device, timeline: Timeline
) -> MemoryKey:
    """The whole of `new_key`, held on `device`; errors as there."""
    key = new_key(backend, r1cs, waste, device, timeline)
    return filled(key.vk, key.lengths, device, key.placed())


def make_verifying_key(
    backend: Backend, r1cs: R1cs, waste: ToxicWaste, device: torch.device, timeline: Timeline
) -> VerifyingKey:
    """The verifying key alone, the same as `make_key(...).vk`; errors as there."""
    with timeline.span("setup: verifying key"):
        lagrange = lagrange_at(backend, r1cs.domain, waste.tau, device)
        mixed = _mixed_columns(backend, r1cs, waste, lagrange)
        return _verifying_key(backend, waste, mixed[:, : r1cs.n_inputs])


def _mixed_columns(
    backend: Backend, r1cs: R1cs, waste: ToxicWaste, lagrange: torch.Tensor
) -> torch.Tensor:
    """beta u_i + alpha v_i + w_i at tau of all variables, inputs first."""
    total = lagrange.new_zeros(FR.n_limbs, r1cs.n_inputs + r1cs.n_aux)
    for index, factor in enumerate((waste.beta, waste.alpha, 1)):
        add_columns(backend, r1cs, index, lagrange, total, factor)
    return total


def _verifying_key(backend: Backend, waste: ToxicWaste, mixed: torch.Tensor) -> VerifyingKey:
    ic = backend.scale(mixed, pow(waste.gamma, -1, FR.modulus), FR)
    return VerifyingKey(
        alpha_g1=scalar_mul(G1, waste.alpha, G1.generator),
        beta_g1=scalar_mul(G1, waste.beta, G1.generator),
        beta_g2=scalar_mul(G2, waste.beta, G2.generator),
        gamma_g2=scalar_mul(G2, waste.gamma, G2.generator),
        delta_g1=scalar_mul(G1, waste.delta, G1.generator),
        delta_g2=scalar_mul(G2, waste.delta, G2.generator),
        ic=tuple(rows_to_points(_points(backend, ic, G1), G1)),
    )


def _points(backend: Backend, values: torch.Tensor, curve: Curve) -> torch.Tensor:
    """Each of `[8, n]`, in Montgomery form, times the generator: rows."""
    return backend.fixed_base(backend.from_mont(values, FR), curve.generator, curve)


def _non_zero(values: torch.Tensor) -> torch.Tensor:
    """The non-zero elements of `[8, n]`, in order: bellperson leaves identity points out."""
    return values[:, (values != 0).any(dim=0)]


def _has_zero(values: torch.Tensor) -> bool:
    """Whether an element of `[8, n]` is 0; one wait for the device."""
    flags = [(piece == 0).all(dim=0).any() for piece in _split(values, _ROWS_AT_ONCE)]
    return bool(torch.stack(flags).any())


def _split(values: torch.Tensor, step: int) -> list[torch.Tensor]:
    """Views of `[8, n]`, `step` elements at a time."""
    return [values[:, start:stop] for start, stop in steps(values.shape[1], step)]
