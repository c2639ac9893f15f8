"""Sparse products, judged by a random combination of their rows."""

from __future__ import annotations

import random

import torch

from torchzk.bench import exact, floors
from torchzk.bench.cases import Benchmark
from torchzk.bench.prepared import Prepare, Prepared
from torchzk.bench.workshop import Workshop
from torchzk.ops.csr import Csr
from torchzk.ops.layout import pack_mont
from torchzk.params.fields import FR

_MOST_TERMS = 5
_DISTINCT = 16
_UNITS = 0.8


def product(*, transposed: bool) -> Prepare:
    """A square matrix, or its transpose, by a vector.

    Rows have one to five terms at random columns; four in five coefficients are 1 or -1, the others
    come from fourteen more.
    """

    def prepare(benchmark: Benchmark, shop: Workshop) -> Prepared:
        n, backend = benchmark.size, shop.backend
        # both are square, so that the two have the same work
        coefficients = [1, FR.modulus - 1]
        rng = random.Random(17)
        coefficients += [rng.randrange(FR.modulus) for _ in range(_DISTINCT - 2)]
        matrix, lines = _matrix(n, coefficients, shop)
        z = shop.below(FR, n, 18)

        def is_right(out: torch.Tensor) -> bool:
            powers = _powers(n, rng.randrange(FR.modulus), shop)
            here, there = (lines, matrix.cols) if not transposed else (matrix.cols, lines)
            expected = 0
            for k, coefficient in enumerate(coefficients):
                of_k = matrix.coefficients == k
                terms = backend.mont_mul(powers[:, here[of_k]], z[:, there[of_k]], FR)
                expected += coefficient * exact.total(terms)
            got = exact.total(backend.mont_mul(powers, out, FR))
            return (got - expected) % FR.modulus == 0

        f = backend.spmv_transposed if transposed else backend.spmv
        nnz = len(matrix.cols)
        floor = floors.sparse(n, n, nnz, int((matrix.coefficients > 1).sum()))
        return Prepared(lambda: f(matrix, z), is_right, nnz, "terms", floor)

    return prepare


def _matrix(n: int, coefficients: list[int], shop: Workshop) -> tuple[Csr, torch.Tensor]:
    """A matrix `[n, n]`, and the row of each of its terms."""
    device = shop.device
    generator = torch.Generator(device).manual_seed(19)
    counts = torch.randint(1, _MOST_TERMS + 1, (n,), generator=generator, device=device)
    rows = torch.nn.functional.pad(counts.cumsum(0), (1, 0))
    nnz = int(rows[-1])
    cols = torch.randint(n, (nnz,), generator=generator, device=device)
    unit = torch.rand(nnz, generator=generator, device=device) < _UNITS
    units = torch.randint(2, (nnz,), generator=generator, device=device)
    others = torch.randint(2, _DISTINCT, (nnz,), generator=generator, device=device)
    matrix = Csr(
        rows, cols, torch.where(unit, units, others), pack_mont(coefficients, FR, device), n
    )
    return matrix, torch.repeat_interleave(torch.arange(n, device=device), counts)


def _powers(n: int, base: int, shop: Workshop) -> torch.Tensor:
    """base^i for i below n, in Montgomery form."""
    ones = pack_mont([1], FR, shop.device).expand(8, n)
    return shop.backend.coset_scale(ones, base)
