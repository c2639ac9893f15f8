"""Field operations: chains in registers, long vectors in memory, inverses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import torch

from torchzk.bench import floors
from torchzk.bench.cases import Benchmark
from torchzk.bench.prepared import Prepare, Prepared
from torchzk.bench.workshop import PERIOD, Workshop
from torchzk.ops.layout import pack_mont, unpack
from torchzk.params.fields import FP, FR, PrimeField

FIELDS: dict[str, tuple[PrimeField, int]] = {"fr": (FR, 1), "fp": (FP, 1), "fp2": (FP, 2)}
"""Field and degree by name."""
# warps of a wave start together, but do not end so: of Fp products 1, 4 and 8 waves gave 26.78,
# 27.34 and 27.48 G/s on an H200, so the end of a launch costs 3 % of a wave
_WAVES = 16
Link = Literal["mul", "sqr", "add"]
Element = tuple[int, ...]


def chain(op: Link, name: str) -> Prepare:
    """`op` over and over in each lane, each link after the one before it."""
    field, degree = FIELDS[name]

    def prepare(benchmark: Benchmark, shop: Workshop) -> Prepared:
        # whole rounds of the loop
        length = max(benchmark.size // 8 * 8, 8)
        run, lanes, how = _links(op, field, degree, shop)
        few = [shop.below(field, 2 * PERIOD, seed) for seed in range(5, 5 + degree)]
        a, b = (
            torch.stack([shop.periodic(x[:, part], lanes) for x in few])
            for part in (slice(PERIOD), slice(PERIOD, None))
        )

        def is_right(out: torch.Tensor) -> bool:
            x, y = (_elements(v[..., :PERIOD]) for v in (a, b))
            expected = [_chain(op, u, v, length, field) for u, v in zip(x, y, strict=True)]
            planes = [[e[k] for e in expected] for k in range(degree)]
            # canonical integers with the factors R that the links left
            want = torch.stack([_packed(plane, field) for plane in planes]).to(out.device)
            return torch.equal(out.view_as(a), shop.periodic(want, lanes))

        work = float(lanes * length)
        floor = floors.chain(op, name, work)
        return Prepared(lambda: run(a, b, length), is_right, work, "operations", floor, how)

    return prepare


def _links(
    op: Link, field: PrimeField, degree: int, shop: Workshop
) -> tuple[Callable[[torch.Tensor, torch.Tensor, int], torch.Tensor], int, str]:
    """The chain on planes `[degree, L, n]`, how many lanes it wants, and where it runs."""
    if shop.name == "triton":
        # late: nobody else needs Triton
        from torchzk.triton_kernels import rate
        from torchzk.triton_kernels.variants import field_code_on

        code = field_code_on(shop.device, field, degree)
        lanes = _WAVES * rate.whole_wave(op, shop.device, code)
        return (
            lambda a, b, n: rate.chain(op, a.flatten(0, 1), b.flatten(0, 1), n, code),
            lanes,
            f"in registers, {_WAVES} whole waves",
        )
    # Fp2 stands in no protocol, but in every backend
    backend: Any = shop.backend
    prefix = "fp2_" if degree == 2 else "" if op == "add" else "mont_"
    one = getattr(backend, f"{prefix}{op}")

    def by_calls(a: torch.Tensor, b: torch.Tensor, length: int) -> torch.Tensor:
        if degree == 1:
            a, b = a[0], b[0]
        for _ in range(length):
            a = one(a, field) if op == "sqr" else one(a, b, field)
        return a

    return by_calls, 1 << 10, "in memory, a call a link"


def _chain(op: Link, x: Element, y: Element, length: int, field: PrimeField) -> Element:
    p, r_inv = field.modulus, field.r_inv
    if op == "add":
        return tuple((u + length * v) % p for u, v in zip(x, y, strict=True))
    for _ in range(length):
        y = x if op == "sqr" else y
        if len(x) == 1:
            x = (x[0] * y[0] * r_inv % p,)
        else:
            x = (
                (x[0] * y[0] - x[1] * y[1]) * r_inv % p,
                (x[0] * y[1] + x[1] * y[0]) * r_inv % p,
            )
    return x


def _elements(x: torch.Tensor) -> list[Element]:
    return list(zip(*(unpack(plane) for plane in x), strict=True))


def _packed(values: list[int], field: PrimeField) -> torch.Tensor:
    return pack_mont([field.from_mont(v) for v in values], field, "cpu")


def stream(name: str) -> Prepare:
    """Products of two long vectors."""
    field, _ = FIELDS[name]

    def prepare(benchmark: Benchmark, shop: Workshop) -> Prepared:
        n = benchmark.size
        few = [shop.below(field, PERIOD, seed) for seed in (7, 8)]
        a, b = (shop.periodic(x, n) for x in few)

        def is_right(out: torch.Tensor) -> bool:
            x, y = map(unpack, few)
            products = [u * v * field.r_inv % field.modulus for u, v in zip(x, y, strict=True)]
            return torch.equal(out, shop.periodic(_packed(products, field), n))

        floor = max(floors.memory(3 * field.n_bytes * n), floors.chain("mul", name, n))
        return Prepared(
            lambda: shop.backend.mont_mul(a, b, field), is_right, n, "operations", floor
        )

    return prepare


def inverse(benchmark: Benchmark, shop: Workshop) -> Prepared:
    """Inverses in Fr of a vector."""
    n = benchmark.size
    x = shop.below(FR, n, 9)
    # three products an element share one inversion
    floor = max(floors.memory(2 * FR.n_bytes * n), floors.chain("mul", "fr", 3 * n))

    def is_right(out: torch.Tensor) -> bool:
        one = pack_mont([1], FR, shop.device)
        zero = (x == 0).all(0)
        return torch.equal(shop.backend.mont_mul(x, out, FR), torch.where(zero, 0, one))

    return Prepared(lambda: shop.backend.batch_inverse(x, FR), is_right, n, "elements", floor)
