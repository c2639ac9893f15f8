"""Proving and verifying keys from known toxic waste: for development, never for a network.

Source: spec/groth16.md section 4; J. Groth, On the Size of Pairing-based Non-interactive
Arguments, section 3.2. Who knows the toxic waste can prove anything under these keys.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass

import torch

from torchzk.backends import Backend
from torchzk.errors import ConfigError, KeyFileError
from torchzk.groth16.columns import transposed_products
from torchzk.groth16.keys import QUERIES, MemoryKey, QueryLengths, VerifyingKey
from torchzk.groth16.r1cs import R1cs
from torchzk.groth16.toxic_waste import ToxicWaste
from torchzk.ops.layout import pack_mont, rows_to_points
from torchzk.params import integers
from torchzk.params.curves import G1, G2, Curve
from torchzk.params.domains import Domain
from torchzk.params.fields import FR
from torchzk.timeline import Timeline

_POINTS_AT_ONCE = {"cpu": 1 << 18, "cuda": 1 << 20}
"""Points made at a time: some seconds of a core's work, and enough to fill a GPU."""


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
    powers = _powers(backend, domain.omega, n, 1, device)
    tau_minus = backend.sub(pack_mont([tau], FR, device).expand_as(powers), powers, FR)
    terms = backend.mont_mul(powers, backend.batch_inverse(tau_minus, FR), FR)
    return backend.scale(terms, vanishing * pow(n, -1, r), FR)


def _powers(backend: Backend, base: int, n: int, first: int, device: torch.device) -> torch.Tensor:
    """first * base^i for i below n: `[8, n]`, Montgomery form."""
    constant = pack_mont([first], FR, device).expand(-1, n).contiguous()
    return backend.coset_scale(constant, base)


@dataclass(frozen=True)
class NewKey:
    """A proving key in the making: what is known at once, and the points as they are made."""

    vk: VerifyingKey
    lengths: QueryLengths
    pieces: Generator[tuple[str, torch.Tensor], None, None]
    """(query, rows) in the order of a parameter file, as `params_file.write_params` takes them.

    Can be gone through once; a query comes in any number of pieces.
    """


def new_key(
    backend: Backend, r1cs: R1cs, waste: ToxicWaste, device: torch.device, timeline: Timeline
) -> NewKey:
    """The proving key of a constraint system, piece by piece on `device`, never whole.

    The same numbers as bellperson's generator gives for the same toxic waste and the standard
    generators of G1 and G2.

    Raises:
        ConfigError: The toxic waste does not suit the circuit's domain.
        KeyFileError: An auxiliary variable is in no constraint, so its l point is the identity.
    """
    with timeline.span("setup: polynomials"):
        u, v, mixed = _columns_at_tau(backend, r1cs, waste, device)
        a, b = _non_zero(u), _non_zero(v)
        del u, v
        l = backend.scale(  # noqa: E741
            mixed[:, r1cs.n_inputs :], pow(waste.delta, -1, FR.modulus), FR
        )
        if bool((l == 0).all(dim=0).any()):
            raise KeyFileError("an auxiliary variable of the circuit is in no constraint")
        vk = _verifying_key(backend, waste, mixed[:, : r1cs.n_inputs])
    h, n_b = r1cs.domain.size - 1, b.shape[1]
    lengths = QueryLengths(h=h, l=l.shape[1], a=a.shape[1], b_g1=n_b, b_g2=n_b)
    scalars = {"l": l, "a": a, "b_g1": b, "b_g2": b}
    return NewKey(vk, lengths, _pieces(backend, r1cs, waste, scalars, device, timeline))


def _pieces(
    backend: Backend,
    r1cs: R1cs,
    waste: ToxicWaste,
    scalars: dict[str, torch.Tensor],
    device: torch.device,
    timeline: Timeline,
) -> Generator[tuple[str, torch.Tensor], None, None]:
    """The points of every query. `scalars` has those of all but h, and is emptied."""
    r, domain = FR.modulus, r1cs.domain
    step = _POINTS_AT_ONCE["cuda" if device.type == "cuda" else "cpu"]
    for name, curve in QUERIES.items():
        with timeline.span(f"setup: {name}"):
            if name == "h":
                first = (pow(waste.tau, domain.size, r) - 1) * pow(waste.delta, -1, r) % r
                values = _powers(backend, waste.tau, domain.size - 1, first, device)
            else:
                values = scalars.pop(name)
            n = values.shape[1]
            for start in range(0, n, step):
                piece = values[:, start : start + step].contiguous()
                yield name, _points(backend, piece, curve)
                timeline.advance(min(start + step, n) / n)


def make_key(
    backend: Backend, r1cs: R1cs, waste: ToxicWaste, device: torch.device, timeline: Timeline
) -> MemoryKey:
    """The whole of `new_key`, held on `device`; errors as there."""
    key = new_key(backend, r1cs, waste, device, timeline)
    pieces: dict[str, list[torch.Tensor]] = {
        name: [_points(backend, pack_mont([], FR, device), curve)]
        for name, curve in QUERIES.items()
    }
    for name, rows in key.pieces:
        pieces[name].append(rows)
    return MemoryKey(key.vk, {name: torch.cat(rows) for name, rows in pieces.items()})


def make_verifying_key(
    backend: Backend, r1cs: R1cs, waste: ToxicWaste, device: torch.device, timeline: Timeline
) -> VerifyingKey:
    """The verifying key alone, the same as `make_key(...).vk`; errors as there."""
    with timeline.span("setup: verifying key"):
        _, _, mixed = _columns_at_tau(backend, r1cs, waste, device)
        return _verifying_key(backend, waste, mixed[:, : r1cs.n_inputs])


def _columns_at_tau(
    backend: Backend, r1cs: R1cs, waste: ToxicWaste, device: torch.device
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """u_i(tau), v_i(tau) and beta u_i + alpha v_i + w_i of all variables, inputs first."""
    lagrange = lagrange_at(backend, r1cs.domain, waste.tau, device)
    u, v, w = transposed_products(backend, r1cs, lagrange)
    mixed = backend.add(backend.scale(u, waste.beta, FR), backend.scale(v, waste.alpha, FR), FR)
    return u, v, backend.add(mixed, w, FR)


def _verifying_key(backend: Backend, waste: ToxicWaste, mixed: torch.Tensor) -> VerifyingKey:
    ic = backend.scale(mixed, pow(waste.gamma, -1, FR.modulus), FR)
    return VerifyingKey(
        alpha_g1=integers.mul(G1, waste.alpha, G1.generator),
        beta_g1=integers.mul(G1, waste.beta, G1.generator),
        beta_g2=integers.mul(G2, waste.beta, G2.generator),
        gamma_g2=integers.mul(G2, waste.gamma, G2.generator),
        delta_g1=integers.mul(G1, waste.delta, G1.generator),
        delta_g2=integers.mul(G2, waste.delta, G2.generator),
        ic=tuple(rows_to_points(_points(backend, ic, G1), G1)),
    )


def _points(backend: Backend, values: torch.Tensor, curve: Curve) -> torch.Tensor:
    """Each of `[8, n]`, in Montgomery form, times the generator: rows."""
    return backend.fixed_base(backend.from_mont(values, FR), curve.generator, curve)


def _non_zero(values: torch.Tensor) -> torch.Tensor:
    """The non-zero elements of `[8, n]`, in order: bellperson leaves identity points out."""
    return values[:, (values != 0).any(dim=0)].contiguous()
