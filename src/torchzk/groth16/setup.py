"""Proving and verifying keys from known toxic waste: for development, never for a network.

Source: spec/groth16.md section 4; J. Groth, On the Size of Pairing-based Non-interactive
Arguments, section 3.2. Who knows the toxic waste can prove anything under these keys.
"""

from __future__ import annotations

import torch

from torchzk.backends import Backend
from torchzk.errors import ConfigError, KeyFileError
from torchzk.groth16.columns import transposed_products
from torchzk.groth16.keys import QUERIES, MemoryKey, VerifyingKey
from torchzk.groth16.r1cs import R1cs
from torchzk.groth16.toxic_waste import ToxicWaste
from torchzk.ops.layout import pack_mont, rows_to_points
from torchzk.params import integers
from torchzk.params.curves import G1, G2, Curve
from torchzk.params.domains import Domain
from torchzk.params.fields import FR
from torchzk.timeline import Timeline


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


def make_key(
    backend: Backend,
    r1cs: R1cs,
    waste: ToxicWaste,
    device: torch.device,
    timeline: Timeline,
) -> MemoryKey:
    """The proving key of a constraint system, its queries as tensors on `device`.

    The same numbers as bellperson's generator gives for the same toxic waste and the standard
    generators of G1 and G2.

    Raises:
        ConfigError: The toxic waste does not suit the circuit's domain.
        KeyFileError: An auxiliary variable is in no constraint, so its l point is the identity.
    """
    r, domain = FR.modulus, r1cs.domain
    with timeline.span("setup: polynomials"):
        u, v, mixed = _columns_at_tau(backend, r1cs, waste, device)
        delta_inv = pow(waste.delta, -1, r)
        l = backend.scale(mixed[:, r1cs.n_inputs :], delta_inv, FR)  # noqa: E741
        vanishing = (pow(waste.tau, domain.size, r) - 1) * delta_inv % r
        b = _non_zero(v)
        scalars: dict[str, torch.Tensor] = {
            "h": _powers(backend, waste.tau, domain.size - 1, vanishing, device),
            "l": l,
            "a": _non_zero(u),
            "b_g1": b,
            "b_g2": b,
        }
    if bool((l == 0).all(dim=0).any()):
        raise KeyFileError("an auxiliary variable of the circuit is in no constraint")
    vk = _verifying_key(backend, waste, mixed[:, : r1cs.n_inputs])
    queries = {}
    for name, curve in QUERIES.items():
        with timeline.span(f"setup: {name}"):
            queries[name] = _points(backend, scalars.pop(name), curve)
    return MemoryKey(vk=vk, queries=queries)


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
