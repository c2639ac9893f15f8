"""Transforms against the sum that defines them."""

from __future__ import annotations

import random

import pytest
import torch

from torchzk.backends import Backend
from torchzk.errors import LayoutError
from torchzk.ops import naive_ntt
from torchzk.ops.layout import pack_mont, unpack_mont
from torchzk.params.domains import Domain
from torchzk.params.fields import FR

P = FR.modulus


def sample(n: int, seed: int) -> list[int]:
    """Edge cases first, random after."""
    rng = random.Random(seed)
    return ([P - 1, 0, 1, P // 2] + [rng.randrange(P) for _ in range(n)])[:n]


def reverse_bits(values: list[int]) -> list[int]:
    bits = (len(values) - 1).bit_length()
    index = [int(f"{i:0{bits}b}"[::-1], 2) if bits else 0 for i in range(len(values))]
    return [values[i] for i in index]


@pytest.mark.parametrize("log_n", range(9))
def test_transforms_match_the_naive_sum(backend: Backend, device: torch.device, log_n: int) -> None:
    domain = Domain(log_n)
    values = sample(domain.size, log_n)
    x = pack_mont(values, FR, device)
    expected = naive_ntt(values, domain)

    assert unpack_mont(backend.ntt(x, domain), FR) == expected
    assert unpack_mont(backend.ntt_dif(x, domain), FR) == reverse_bits(expected)
    evaluations = pack_mont(expected, FR, device)
    assert unpack_mont(backend.intt(evaluations, domain), FR) == values
    reversed_evaluations = pack_mont(reverse_bits(expected), FR, device)
    assert unpack_mont(backend.intt_dit(reversed_evaluations, domain), FR) == values


@pytest.mark.parametrize("value", [P - 1, P // 2, 1], ids=["minus-one", "half", "one"])
def test_transform_of_a_constant_over_many_pieces(
    backend: Backend, device: torch.device, value: int
) -> None:
    """Sums reach their largest: X_0 = n times the value, all else is zero."""
    domain = Domain(13)
    x = pack_mont([value], FR, device).expand(-1, domain.size)
    got = backend.ntt_dif(x, domain)
    assert unpack_mont(got[:, :1], FR) == [value * domain.size % P]
    assert not got[:, 1:].any()
    assert torch.equal(backend.intt_dit(got, domain), x)


def test_long_transform_evaluates_the_polynomial(backend: Backend, device: torch.device) -> None:
    domain = Domain(14)
    values = sample(domain.size, 3)
    x = pack_mont(values, FR, device)
    got = backend.ntt(x, domain)
    for k in (1, 2, 4095, 8192, 16383):
        point, total = pow(domain.omega, k, P), 0
        for v in reversed(values):
            total = (total * point + v) % P
        assert unpack_mont(got[:, k : k + 1], FR) == [total]
    assert torch.equal(backend.intt(got, domain), x)


def test_each_vector_of_a_batch(backend: Backend, device: torch.device) -> None:
    domain = Domain(5)
    x = pack_mont(sample(6 * domain.size, 4), FR, device).view(8, 2, 3, domain.size)
    for transform in (backend.ntt, backend.intt, backend.ntt_dif, backend.intt_dit):
        got = transform(x, domain)
        assert got.shape == x.shape
        for i in range(2):
            for j in range(3):
                assert torch.equal(got[:, i, j], transform(x[:, i, j], domain))
    assert backend.ntt(x[:, :0], domain).shape == (8, 0, 3, domain.size)


@pytest.mark.parametrize("n", [1, 2, 7, 2049])
@pytest.mark.parametrize("shift", [0, 1, 7, P - 1])
def test_coset_scale(backend: Backend, device: torch.device, n: int, shift: int) -> None:
    values = sample(2 * n, n)
    x = pack_mont(values, FR, device).view(8, 2, n)
    got = unpack_mont(backend.coset_scale(x, shift).view(8, 2 * n), FR)
    assert got == [v * pow(shift, i % n, P) % P for i, v in enumerate(values)]


def test_input_is_left_alone(backend: Backend, device: torch.device) -> None:
    domain = Domain(4)
    x = pack_mont(sample(16, 5), FR, device)
    before = x.clone()
    backend.intt(backend.ntt(backend.coset_scale(x, 7), domain), domain)
    assert torch.equal(x, before)


def test_wrong_shapes_are_refused(backend: Backend, device: torch.device) -> None:
    x = pack_mont(sample(8, 6), FR, device)
    for transform in (backend.ntt, backend.intt, backend.ntt_dif, backend.intt_dit):
        with pytest.raises(LayoutError, match="domain of 16 got vectors of 8"):
            transform(x, Domain(4))
        with pytest.raises(LayoutError, match="int32"):
            transform(x.long(), Domain(3))
    with pytest.raises(LayoutError, match=FR.name):
        backend.coset_scale(x[:4], 7)
