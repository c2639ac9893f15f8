"""Sums and multiples of points whose logarithms are known: each result is one multiple of G."""

from __future__ import annotations

from functools import partial

import torch

from torchzk.bench import exact, floors
from torchzk.bench.cases import Benchmark
from torchzk.bench.prepared import Prepare, Prepared
from torchzk.bench.workshop import Workshop, times_generator
from torchzk.params.curves import Curve, Point


def msm(curve: Curve) -> Prepare:
    """The MSM of n points."""

    def prepare(benchmark: Benchmark, shop: Workshop) -> Prepared:
        n = benchmark.size
        points, scalars = shop.points(curve, n), shop.scalars(n, benchmark.inputs)
        limit = {} if benchmark.limit_bytes is None else {"limit_bytes": benchmark.limit_bytes}
        call = partial(shop.backend.msm, scalars, points.rows, curve, **limit)
        floor = floors.msm(n, curve.degree) if benchmark.inputs == "uniform" else None

        def is_right(total: Point) -> bool:
            return points.are_right() and total == points.sum(scalars)

        return Prepared(call, is_right, n, "points", floor)

    return prepare


def batch_add(curve: Curve) -> Prepare:
    """The sum of n points, or of half of them, chosen by bits."""

    def prepare(benchmark: Benchmark, shop: Workshop) -> Prepared:
        n = benchmark.size
        points = shop.points(curve, n)
        chosen = shop.bits(n, 14) if benchmark.inputs == "half" else None
        count = n if chosen is None else int(chosen.sum())

        def is_right(total: Point) -> bool:
            ones = torch.zeros(8, n, dtype=torch.int32, device=shop.device)
            ones[0] = 1 if chosen is None else chosen
            return points.are_right() and total == points.sum(ones)

        floor = floors.batch_add(count, curve.degree)
        call = partial(shop.backend.batch_add, points.rows, chosen, curve)
        return Prepared(call, is_right, count, "points", floor)

    return prepare


def fixed_base(curve: Curve) -> Prepare:
    """Multiples of the generator, judged by a random combination of all of them."""

    def prepare(benchmark: Benchmark, shop: Workshop) -> Prepared:
        n = benchmark.size
        # another benchmark's points take room and are not needed
        shop.forget()
        scalars = shop.scalars(n, "uniform", seed=15)

        def is_right(rows: torch.Tensor) -> bool:
            weights = shop.scalars(n, "uniform", seed=16)
            expected = times_generator(curve, exact.dot(weights, scalars))
            return shop.backend.msm(weights, rows, curve) == expected

        call = partial(shop.backend.fixed_base, scalars, curve.generator, curve)
        return Prepared(call, is_right, n, "points", floors.fixed_base(n, curve.degree))

    return prepare
