"""Sparse products, judged by a random combination of their rows."""

from __future__ import annotations

import random
from collections.abc import Callable

import torch

from torchzk.bench import exact, floors
from torchzk.bench.cases import Benchmark
from torchzk.bench.prepared import Prepare, Prepared
from torchzk.bench.workshop import Workshop
from torchzk.ops.csr import Copies, Csr
from torchzk.ops.layout import pack_mont
from torchzk.params.fields import FR

_MOST_TERMS = 5
_DISTINCT = 16
_UNITS = 0.8
_COPIES = 256


def product(*, transposed: bool) -> Prepare:
    """A square matrix, or its transpose, by a vector.

    Rows have one to five terms at random columns; four in five coefficients are 1 or -1, the others
    come from fourteen more.
    """

    def prepare(benchmark: Benchmark, shop: Workshop) -> Prepared:
        n, backend = benchmark.size, shop.backend
        matrix, lines, coefficients = _matrix(n, n, shop)
        z = shop.below(FR, n, 18)
        here, there = (matrix.cols, lines) if transposed else (lines, matrix.cols)
        is_right = _judge(here, there, matrix.coefficients, coefficients, z, shop)
        f = backend.spmv_transposed if transposed else backend.spmv
        nnz = len(matrix.cols)
        floor = floors.sparse(n, n, nnz, int((matrix.coefficients > 1).sum()))
        return Prepared(lambda: f(matrix, z), is_right, nnz, "terms", floor)

    return prepare


def copies(benchmark: Benchmark, shop: Workshop) -> Prepared:
    """A block's matrix by the variables of each of its copies, n rows in all, in place."""
    device, m = shop.device, max(benchmark.size // _COPIES, 2)
    count = max(benchmark.size // m, 1)
    generator = torch.Generator(device).manual_seed(22)
    # one input and one import of each copy, and as many aux as rows
    n_inputs, n_aux = 1 + count, 2 + count * m
    imports = torch.randint(n_aux, (count, 1), generator=generator, device=device)
    where = Copies(
        n_shared_inputs=1,
        n_inputs=1,
        n_shared_aux=2,
        n_aux=m,
        imports=imports,
        first=0,
        last=count,
    )
    v = where.n_columns
    matrix, lines, coefficients = _matrix(m, v, shop)
    z = shop.below(FR, n_inputs + n_aux, 18)
    inputs, aux = z[:, :n_inputs].contiguous(), z[:, n_inputs:].contiguous()
    # where the variables of copy k lie in z
    k = torch.arange(count, device=device).unsqueeze(1)
    own = torch.arange(m, device=device)
    shared = torch.arange(2, device=device).expand(count, 2)
    of_aux = torch.cat((shared, imports, 2 + k * m + own), 1) + n_inputs
    places = torch.cat((0 * k, 1 + k, of_aux), 1)
    out = torch.empty(FR.n_limbs, count * m, dtype=torch.int32, device=device)
    is_right = _judge(
        (k * m + lines).flatten(),
        places[:, matrix.cols].flatten(),
        matrix.coefficients.repeat(count),
        coefficients,
        z,
        shop,
    )

    def call() -> torch.Tensor:
        shop.backend.spmv_copies(matrix, where, inputs, aux, out)
        return out

    nnz = len(matrix.cols)
    n_products = count * int((matrix.coefficients > 1).sum())
    # the matrix is read once if it stays in cache
    floor = floors.sparse(count * m, n_inputs + n_aux, nnz, n_products)
    return Prepared(call, is_right, count * nnz, "terms", floor)


def _judge(
    here: torch.Tensor,
    there: torch.Tensor,
    ids: torch.Tensor,
    coefficients: list[int],
    z: torch.Tensor,
    shop: Workshop,
) -> Callable[[torch.Tensor], bool]:
    """Whether row `here` of a product is the sum of coefficients times elements `there` of `z`.

    Both sides are multiplied by powers of a random element and summed, coefficient by coefficient.
    """

    def is_right(out: torch.Tensor) -> bool:
        n, mul = out.shape[1], shop.backend.mont_mul
        ones = pack_mont([1], FR, shop.device).expand(8, n)
        base = random.Random(23).randrange(FR.modulus)
        powers = shop.backend.coset_scale(ones, base)
        expected = 0
        for k, coefficient in enumerate(coefficients):
            of_k = ids == k
            terms = mul(powers[:, here[of_k]], z[:, there[of_k]], FR)
            expected += coefficient * exact.total(terms)
        return (exact.total(mul(powers, out, FR)) - expected) % FR.modulus == 0

    return is_right


def _matrix(m: int, v: int, shop: Workshop) -> tuple[Csr, torch.Tensor, list[int]]:
    """A matrix `[m, v]`, the row of each of its terms, and its distinct coefficients."""
    device, rng = shop.device, random.Random(17)
    distinct = [1, FR.modulus - 1]
    distinct += [rng.randrange(FR.modulus) for _ in range(_DISTINCT - 2)]
    generator = torch.Generator(device).manual_seed(19)
    counts = torch.randint(1, _MOST_TERMS + 1, (m,), generator=generator, device=device)
    rows = torch.nn.functional.pad(counts.cumsum(0), (1, 0))
    nnz = int(rows[-1])
    cols = torch.randint(v, (nnz,), generator=generator, device=device)
    unit = torch.rand(nnz, generator=generator, device=device) < _UNITS
    units = torch.randint(2, (nnz,), generator=generator, device=device)
    others = torch.randint(2, _DISTINCT, (nnz,), generator=generator, device=device)
    matrix = Csr(rows, cols, torch.where(unit, units, others), pack_mont(distinct, FR, device), v)
    return matrix, torch.repeat_interleave(torch.arange(m, device=device), counts), distinct
