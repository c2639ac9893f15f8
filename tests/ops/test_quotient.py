"""The quotient by six transforms against the textbook's seven, and against its definition."""

from __future__ import annotations

import random

import pytest
import torch

from torchzk.backends import Backend
from torchzk.errors import LayoutError
from torchzk.ops.layout import pack_mont, unpack_mont
from torchzk.params.domains import Domain
from torchzk.params.fields import FR

P = FR.modulus


def satisfied(
    domain: Domain, device: torch.device
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Random a and b, and c = a b."""
    rng = random.Random(domain.log_n)
    a, b = ([rng.randrange(P) for _ in range(domain.size)] for _ in range(2))
    c = [x * y % P for x, y in zip(a, b, strict=True)]
    return pack_mont(a, FR, device), pack_mont(b, FR, device), pack_mont(c, FR, device)


def textbook(
    backend: Backend, a: torch.Tensor, b: torch.Tensor, c: torch.Tensor, domain: Domain
) -> torch.Tensor:
    """spec/groth16.md section 3, on the coset of 7."""
    on_coset = [
        backend.ntt(backend.coset_scale(backend.intt(x, domain), 7), domain) for x in (a, b, c)
    ]
    product = backend.mont_mul(on_coset[0], on_coset[1], FR)
    vanishing = pow(7, domain.size, P) - 1
    h = backend.scale(backend.sub(product, on_coset[2], FR), pow(vanishing, -1, P), FR)
    return backend.coset_scale(backend.intt(h, domain), pow(7, -1, P))


@pytest.mark.parametrize("log_n", [0, 1, 2, 5, 12, 13])
def test_equals_the_textbook(backend: Backend, device: torch.device, log_n: int) -> None:
    domain = Domain(log_n)
    a, b, c = satisfied(domain, device)
    h = backend.quotient(a, b, c, domain)
    assert torch.equal(h, textbook(backend, a, b, c, domain))
    assert not h[:, -1].any()
    assert log_n == 0 or h.any()


@pytest.mark.parametrize("log_n", [1, 3, 6])
def test_h_times_the_vanishing_polynomial_is_ab_minus_c(
    backend: Backend, device: torch.device, log_n: int
) -> None:
    domain = Domain(log_n)
    evaluations = satisfied(domain, device)
    a, b, c = (unpack_mont(backend.intt(x, domain), FR) for x in evaluations)
    h = unpack_mont(backend.quotient(*evaluations, domain), FR)

    n = domain.size
    difference = [-v for v in c] + [0] * n
    for i, x in enumerate(a):
        for j, y in enumerate(b):
            difference[i + j] += x * y
    # (X^n - 1) h
    expected = [-v for v in h] + h
    assert [(d - e) % P for d, e in zip(difference, expected, strict=True)] == [0] * (2 * n)


def test_last_coefficient_tells_an_unsatisfied_system(
    backend: Backend, device: torch.device
) -> None:
    domain = Domain(4)
    a, b, c = satisfied(domain, device)
    c[0, 3] ^= 1
    assert backend.quotient(a, b, c, domain)[:, -1].any()


def test_input_is_left_alone(backend: Backend, device: torch.device) -> None:
    domain = Domain(4)
    vectors = satisfied(domain, device)
    before = [x.clone() for x in vectors]
    backend.quotient(*vectors, domain)
    assert all(torch.equal(x, y) for x, y in zip(vectors, before, strict=True))


def test_wrong_shapes_are_refused(backend: Backend, device: torch.device) -> None:
    a, b, c = satisfied(Domain(4), device)
    with pytest.raises(LayoutError, match="domain of 32"):
        backend.quotient(a, b, c, Domain(5))
    with pytest.raises(LayoutError, match="domain of 16"):
        backend.quotient(a, b, c[:, :8], Domain(4))
    with pytest.raises(LayoutError, match="single vectors"):
        backend.quotient(a.unsqueeze(1), b.unsqueeze(1), c.unsqueeze(1), Domain(4))
    with pytest.raises(LayoutError, match="on one device"):
        backend.quotient(a, b, c.to("meta"), Domain(4))
