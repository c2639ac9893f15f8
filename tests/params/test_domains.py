"""Evaluation domains: orders of their generators, and how they are chosen."""

from __future__ import annotations

import pytest

from torchzk.params.domains import Domain, domain_for
from torchzk.params.fields import FR

P = FR.modulus


@pytest.mark.parametrize("log_n", [0, 1, 5, 17, 27, 31])
def test_omega_has_the_order_of_the_domain(log_n: int) -> None:
    domain = Domain(log_n)
    assert pow(domain.omega, domain.size, P) == 1
    assert domain.size == 1 or pow(domain.omega, domain.size // 2, P) == P - 1


def test_domains_are_nested() -> None:
    assert all(pow(Domain(k + 1).omega, 2, P) == Domain(k).omega for k in range(31))


@pytest.mark.parametrize("log_n", [0, 1, 5, 17, 31])
def test_vanishing_polynomial_is_minus_two_on_the_coset(log_n: int) -> None:
    domain = Domain(log_n)
    for k in range(min(domain.size, 4)):
        x = domain.coset_shift * pow(domain.omega, k, P)
        assert (pow(x, domain.size, P) - 1) % P == P - 2


@pytest.mark.parametrize(
    ("n_rows", "log_n"), [(0, 0), (1, 0), (2, 1), (3, 2), (1024, 10), (1025, 11)]
)
def test_smallest_domain_with_room(n_rows: int, log_n: int) -> None:
    assert domain_for(n_rows) == Domain(log_n)


def test_domain_of_a_32_gib_partition() -> None:
    assert domain_for(130_278_869).size == 134_217_728


@pytest.mark.parametrize("log_n", [-1, 32])
def test_sizes_the_field_has_no_coset_for_are_refused(log_n: int) -> None:
    with pytest.raises(ValueError, match="2\\^"):
        Domain(log_n)
