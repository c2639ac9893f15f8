"""What `vary_shapes.py` tries: by entry of `tuning`, an operation, its inputs, and other entries.

Inputs are those of `torchzk.bench`, or a few elements that come again and again, whose results the
reference gives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch

from torchzk import ops, triton_kernels
from torchzk.bench.cases import Benchmark
from torchzk.bench.operations import OPERATIONS
from torchzk.bench.prepared import Prepare, Prepared
from torchzk.bench.workshop import PERIOD, Workshop
from torchzk.ops.layout import pack_mont, points_to_rows
from torchzk.params import integers
from torchzk.params.curves import CURVES, Curve
from torchzk.params.domains import Domain
from torchzk.params.fields import FP, FR, PrimeField
from torchzk.triton_kernels.ntt import bit_reversed
from torchzk.triton_kernels.tuning import Number, Shape

Setting = Shape | Number
"""An entry of one of the tables."""


@dataclass(frozen=True)
class Trial:
    """One operation under several settings of one entry."""

    entry: tuple[str, int]
    """Operation and limbs, the first parts of a key of `tuning`."""
    benchmark: Benchmark
    """What is called; need not be one of `torchzk-bench`."""
    small: int
    """The size in the interpreter; 0 where it would take minutes, as inverses do."""
    prepare: Prepare
    others: Callable[[Setting], list[Setting]]
    """What is tried beside the current setting."""
    kernels: tuple[str, ...] = ()
    """Those that the entry launches here, which are compiled ahead."""
    degree: int = 1
    """Of the field."""
    alone: bool = False
    """Whether these kernels alone are timed, as the operation spends its time on others."""

    @property
    def name(self) -> str:
        return f"{self.entry[0]} {self.entry[1]}: {self.benchmark.name}"


def _shapes(*pairs: tuple[int, int]) -> Callable[[Setting], list[Setting]]:
    """Shapes of other blocks and warps, with the current limit of registers."""

    def others(now: Setting) -> list[Setting]:
        if not isinstance(now, Shape):
            raise TypeError(f"{now} is no shape")
        known = (now.block, now.num_warps)
        return [replace(now, block=b, num_warps=w) for b, w in pairs if (b, w) != known]

    return others


def _always(*values: int) -> Callable[[Setting], list[Setting]]:
    """Numbers that are the same at every size."""
    return lambda now: [Number(((0, value),), "a trial's") for value in values]


def _periodic(run: Callable[[Workshop, torch.Tensor], Any], field: PrimeField) -> Prepare:
    """`run` of elements that come again, which the reference computes once."""

    def prepare(benchmark: Benchmark, shop: Workshop) -> Prepared:
        few = shop.below(field, PERIOD, 30)
        few[:, 3], few[:, 4] = 0, pack_mont([1], field, shop.device)[:, 0]
        x = shop.periodic(few, benchmark.size)
        reference = Workshop(ops, "torch", torch.device("cpu"))
        expected = run(reference, few.cpu())

        def is_right(out: torch.Tensor) -> bool:
            return torch.equal(out, shop.periodic(expected, benchmark.size))

        return Prepared(lambda: run(shop, x), is_right, benchmark.size, "elements", None)

    return prepare


def _inverse(field: PrimeField) -> Prepare:
    return _periodic(lambda shop, x: shop.backend.batch_inverse(x, field), field)


def _canonical(shop: Workshop, x: torch.Tensor) -> torch.Tensor:
    """Of elements named one by one, where they stand."""
    index = torch.arange(x.shape[1], dtype=torch.int32, device=x.device)
    out = torch.empty_like(x)
    shop.backend.from_mont_at(x, index, out)
    return out


def _unsatisfied(benchmark: Benchmark, shop: Workshop) -> Prepared:
    """The last row alone does not hold."""
    a = shop.below(FR, benchmark.size, 31)
    c = shop.backend.mont_sqr(a, FR)
    c[0, -1] ^= 1

    def is_right(first: torch.Tensor) -> bool:
        return int(first) == benchmark.size - 1

    call = partial(shop.backend.first_unsatisfied, a, a, c)
    return Prepared(call, is_right, benchmark.size, "rows", None)


def _rows(operation: str, curve: Curve) -> Prepare:
    """Multiples of the generator, infinity, and what is no point of the curve."""

    def prepare(benchmark: Benchmark, shop: Workshop) -> Prepared:
        known = [integers.mul(curve, k, curve.generator) for k in range(PERIOD)]
        few = points_to_rows(known, curve, "cpu")
        few.flatten(1)[5, 0] ^= 1
        index = torch.arange(benchmark.size, device=shop.device) % PERIOD
        rows = few.to(shop.device)[index]
        expected = getattr(ops, operation)(few, curve)

        def is_right(out: torch.Tensor) -> bool:
            return torch.equal(out, expected.to(out.device)[index])

        call = partial(getattr(triton_kernels, operation), rows, curve)
        return Prepared(call, is_right, benchmark.size, "points", None)

    return prepare


def _steps(benchmark: Benchmark, shop: Workshop) -> Prepared:
    generator = torch.Generator().manual_seed(32)
    few = [
        torch.randint(-(1 << 31), 1 << 31, (k, PERIOD), generator=generator, dtype=torch.int32)
        for k in (16, 8)
    ]
    expected = ops.sha256_steps(few[0], few[1])
    blocks, states = (shop.periodic(x, benchmark.size) for x in few)

    def is_right(out: torch.Tensor) -> bool:
        return torch.equal(out, shop.periodic(expected, benchmark.size))

    call = partial(shop.backend.sha256_steps, blocks, states)
    return Prepared(call, is_right, benchmark.size, "compressions", None)


def _reversed(benchmark: Benchmark, shop: Workshop) -> Prepared:
    domain = Domain(benchmark.size.bit_length() - 1)
    x = shop.below(FR, domain.size, 33)
    index = torch.zeros(domain.size, dtype=torch.int64, device=shop.device)
    for bit in range(domain.log_n):
        index |= (torch.arange(domain.size, device=shop.device) >> bit & 1) << (
            domain.log_n - 1 - bit
        )
    call = partial(bit_reversed, x, domain)
    return Prepared(call, lambda out: torch.equal(out, x[:, index]), domain.size, "elements", None)


_ELEMENTS = _shapes((64, 2), (256, 8), (128, 2), (256, 4))
_POINTS = _shapes((64, 2), (256, 8), (32, 1))
_INDICES = _shapes((128, 4), (256, 4), (1024, 4), (1024, 8))
_HASHES = _shapes((32, 1), (128, 4), (256, 8))
_PAIRS = (
    "add_flagged",
    "add_alone",
    "finish_sums",
    "multiply_runs",
    "invert_each",
    "split_inverses",
    "multiply_elements",
)
NEEDED = ("binary_kernel", "unary_kernel", "scale_kernel", "chain_kernel", "norm_kernel")
"""Kernels of the check of variants, of any field."""
BESIDE = (
    *("find_carries", "make_keys", "pair_keys", "pair_labels", "weigh_bits", "back_kernel"),
    *("powers_kernel", "scale_by_powers_kernel"),
)
"""Kernels that make inputs, judge results, or run besides."""


def _of_bench(
    entry: tuple[str, int], operation: str, log_n: int, small: int, *rest: Any, **more: Any
) -> Trial:
    benchmark = Benchmark(operation, 1 << log_n)
    return Trial(entry, benchmark, small, OPERATIONS[operation], *rest, **more)


def _own(
    entry: tuple[str, int],
    operation: str,
    log_n: int,
    small: int,
    prepare: Prepare,
    *rest: Any,
    **more: Any,
) -> Trial:
    return Trial(entry, Benchmark(operation, 1 << log_n), small, prepare, *rest, **more)


def _all() -> Iterator[Trial]:
    """Trials of the same points come one after the other."""
    kernels: tuple[str, ...]
    for name, field in (("fr", FR), ("fp", FP)):
        n_limbs = field.n_limbs
        operation = f"stream.mul.{name}"
        yield _of_bench(("elementwise", n_limbs), operation, 24, 300, _ELEMENTS, ("binary_kernel",))
        kernels = ("products_kernel", "inverses_kernel")
        operation, prepare = f"inverse.{name}", _inverse(field)
        # lanes are few
        yield _own(
            ("inverse", n_limbs), operation, 22, 0, prepare, _shapes((64, 2), (32, 1)), kernels
        )
        shapes = _shapes((64, 2), (64, 1))
        yield _own(("fermat", n_limbs), operation, 14, 0, prepare, shapes, ("fermat_kernel",))
    shapes = _shapes((64, 2), (256, 8))
    yield _of_bench(("ntt pass", 8), "ntt", 24, 16, shapes, ("forth_kernel",))
    shapes = _shapes((1 << 12, 4), (1 << 12, 16), (1 << 10, 4), (1 << 14, 16))
    yield _own(("bit reversal", 8), "reversed", 24, 256, _reversed, shapes, ("reverse_kernel",))
    for log_n in range(16, 21):
        yield _of_bench(("ntt graph", 8), "ntt", log_n, 4, _always(1, 0))
    for log_n in range(19, 25):
        yield _of_bench(("ntt halves", 8), "ntt", log_n, 16, _always(1, 0), ("forth_kernel",))
    values = ("values", 8)
    classes = _periodic(lambda shop, x: shop.backend.classes(x), FR)
    yield _own(values, "classes", 24, 300, classes, _ELEMENTS, ("classes_kernel",))
    canonical = _periodic(_canonical, FR)
    yield _own(values, "from_mont_at", 24, 300, canonical, _ELEMENTS, ("from_mont_at_kernel",))
    kernels = ("first_unsatisfied_kernel",)
    yield _own(values, "first_unsatisfied", 24, 300, _unsatisfied, _ELEMENTS, kernels)
    for length, log_n, small in ((64, 22, 70), (1216, 18, 0)):
        operation = f"sha256.{length}B"
        yield _of_bench(("sha256", 8), operation, log_n, small, _HASHES, ("digest_kernel",))
    yield _own(("sha256 steps", 8), "sha256_steps", 17, 70, _steps, _HASHES, ("steps_kernel",))
    for name, curve in CURVES.items():
        for operation, kernel in (("on_curve", "satisfies"), ("neg_affine", "negate")):
            yield _own(
                *(("points", 12), f"{operation}.{name}", 22, 33, _rows(operation, curve)),
                *(_POINTS, (kernel,), curve.degree),
            )
    kernels = ("add_runs", "make_affine")
    yield _of_bench(("sums", 12), "batch_add.g1", 18, 0, _shapes((64, 2)), kernels)
    yield _of_bench(("pairs", 12), "batch_add.g1", 22, 0, _shapes((64, 2)), _PAIRS)
    kernels = ("pair_keys", "pair_labels")
    yield _of_bench(("labels", 12), "msm.g1", 22, 0, _INDICES, kernels, alone=True)
    kernels = ("find_carries", "make_keys")
    yield _of_bench(("digits", 8), "msm.g1", 22, 0, _INDICES, kernels, alone=True)


TRIALS: Sequence[Trial] = tuple(_all())
