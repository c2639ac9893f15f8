"""Transforms and quotients, judged by the values of polynomials at random points."""

from __future__ import annotations

import random
from typing import Literal

import torch

from torchzk.bench import exact, floors
from torchzk.bench.cases import Benchmark
from torchzk.bench.prepared import Prepare, Prepared
from torchzk.bench.workshop import Workshop
from torchzk.errors import ConfigError
from torchzk.ops.layout import unpack
from torchzk.params.domains import Domain
from torchzk.params.fields import FR

_POINTS = 2


def transform(direction: Literal["ntt", "intt"]) -> Prepare:
    """`ntt_dif`, or `intt_dit`, of one vector."""

    def prepare(benchmark: Benchmark, shop: Workshop) -> Prepared:
        domain = _domain(benchmark)
        x = shop.below(FR, domain.size, 11)
        rng = random.Random(benchmark.size)

        def is_right(out: torch.Tensor) -> bool:
            coefficients, values = (x, out) if direction == "ntt" else (out, x)
            for _ in range(_POINTS):
                k = rng.randrange(domain.size)
                at = int(format(k, f"0{domain.log_n}b")[::-1], 2) if domain.log_n else 0
                expected = _value(shop, coefficients, pow(domain.omega, k, FR.modulus))
                if unpack(values[:, at : at + 1]) != [expected]:
                    return False
            # and back, all of it
            return torch.equal(back(out, domain), x)

        there, back = shop.backend.ntt_dif, shop.backend.intt_dit
        if direction == "intt":
            there, back = back, there
        floor = floors.transform(domain.log_n)
        return Prepared(lambda: there(x, domain), is_right, domain.size, "elements", floor)

    return prepare


def quotient(benchmark: Benchmark, shop: Workshop) -> Prepared:
    """h of a b - c = h (x^n - 1), at two random points."""
    domain, backend = _domain(benchmark), shop.backend
    a, b = (shop.below(FR, domain.size, seed) for seed in (12, 13))
    c = backend.mont_mul(a, b, FR)
    rng = random.Random(benchmark.size)

    def is_right(h: torch.Tensor) -> bool:
        points = [rng.randrange(FR.modulus) for _ in range(_POINTS)]
        polynomials: list[list[int]] = []
        for values in (a, b, c):
            coefficients = backend.intt(values, domain)
            polynomials.append([_value(shop, coefficients, z) for z in points])
        polynomials.append([_value(shop, h, z) for z in points])
        return all(
            (
                FR.from_mont(at_a) * FR.from_mont(at_b)
                - FR.from_mont(at_c)
                - FR.from_mont(at_h) * (pow(z, domain.size, FR.modulus) - 1)
            )
            % FR.modulus
            == 0
            for z, at_a, at_b, at_c, at_h in zip(points, *polynomials, strict=True)
        )

    floor = floors.quotient(domain.log_n)
    return Prepared(
        lambda: backend.quotient(a, b, c, domain), is_right, domain.size, "elements", floor
    )


def _value(shop: Workshop, coefficients: torch.Tensor, point: int) -> int:
    """The polynomial at a canonical point, in the form of its coefficients."""
    return exact.total(shop.backend.coset_scale(coefficients, point)) % FR.modulus


def _domain(benchmark: Benchmark) -> Domain:
    n = benchmark.size
    if n < 1 or n & (n - 1):
        raise ConfigError(f"{benchmark.name}: transforms are of 2^k elements, not of {n}")
    return Domain(n.bit_length() - 1)
