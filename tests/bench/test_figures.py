"""Figures, floors, and what a row makes of them."""

from __future__ import annotations

import pytest

from torchzk.bench import floors
from torchzk.bench.cases import BENCHMARKS, Benchmark
from torchzk.bench.rows import Result
from torchzk.bench.timing import Times
from torchzk.params.poseidon import Poseidon


def result(benchmark: Benchmark, seconds: float, work: float, **more: float | None) -> Result:
    times = Times(1.0, (seconds,), None)
    facts: dict[str, float | None] = {"floor": None, "against": None, **more}
    return Result(
        benchmark, times, True, work, "", how="", floor=facts["floor"], against=facts["against"]
    )


def test_quantiles_are_of_the_nearest_rank() -> None:
    times = Times(1.0, tuple(float(k) for k in range(1, 8)), None)
    assert [times.quantile(p) for p in (20, 50, 80, 100)] == [2.0, 4.0, 6.0, 7.0]
    assert Times(1.0, (5.0,), None).quantile(20) == 5.0


def test_less_time_is_better() -> None:
    fast = result(Benchmark("ntt", 1 << 24), 3.0e-3, 1 << 24, floor=1.5e-3)
    assert fast.figure == 3.0 and fast.over_sppark == 3.0 / 4.435 and fast.over_floor == 2.0
    assert fast.reaches(fast.figures.must) and fast.reaches(fast.figures.goal)
    slow = result(Benchmark("ntt", 1 << 24), 3.5e-3, 1 << 24)
    assert slow.reaches(slow.figures.must) and not slow.reaches(slow.figures.goal)


def test_more_a_second_is_better() -> None:
    (mul,) = (b for b in BENCHMARKS if b.name == "field.mul.fr")
    fast = result(mul, 1.0, 119.4e9)
    assert fast.figure == pytest.approx(119.4) and fast.over_sppark == pytest.approx(0.5)
    assert fast.reaches(65) and not fast.reaches(120)
    slow = result(Benchmark("fixed_base.g1", 1 << 22), 1.0, 9e7)
    assert slow.figure == 90 and not slow.reaches(slow.figures.must)


def test_ratios_to_another_benchmark() -> None:
    skewed = result(Benchmark("msm.g1", 1 << 24, "equal"), 1.4, 1, against=1.0)
    assert skewed.over_against == 1.4 and skewed.over_sppark is None
    assert skewed.reaches(skewed.figures.must) and not skewed.reaches(skewed.figures.goal)


def test_floors() -> None:
    """The counts of products and additions, where they are known."""
    # 2^27 / 2 in each of 27 stages, without those by 1
    products = (27 << 26) - (1 << 26) - (1 << 25) - (1 << 24)
    assert floors.transform(27) == pytest.approx(products / floors.FR_MUL)
    assert floors.transform(0) > 0
    one = floors.point_addition(1)
    assert floors.batch_add(1 << 24, 1) == pytest.approx(((1 << 24) - 1) * one)
    # 12 windows of 22 bits, or fewer additions with another window
    assert floors.msm(1 << 27, 1) <= 12 * ((1 << 27) + (1 << 21)) * one
    assert floors.msm(1 << 27, 1) > 10 * (1 << 27) * one
    assert floors.msm(1 << 20, 1, 16) < floors.msm(1 << 20, 1) / 10
    t, full, partial = 3, 8, Poseidon.merkle(2).partial_rounds
    count = full * (3 * t + t * t) + partial * (3 + 2 * t - 1)
    assert floors.poseidon(5, Poseidon.merkle(2)) == pytest.approx(5 * count / floors.FR_MUL)


def test_scratch_beyond_the_limit() -> None:
    limited = Benchmark("msm.g1", 1 << 27, limit_bytes=12 << 30)
    assert limited.name == "msm.g1.2^27.12GiB"
    for peak, within in ((12 << 30, True), ((12 << 30) + 1, False), (None, None)):
        times = Times(1.0, (1.0,), peak)
        assert Result(limited, times, True, 1, "", None, "", None).within_limit is within
