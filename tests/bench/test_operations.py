"""Every benchmark's operation at a tiny size on the reference: right as it is, wrong by one bit."""

from __future__ import annotations

import pytest
import torch

from torchzk.backends import load_backend
from torchzk.bench import exact
from torchzk.bench.cases import BENCHMARKS, Benchmark, Inputs
from torchzk.bench.operations import GROUPS, OPERATIONS, group_of
from torchzk.bench.workshop import Workshop
from torchzk.errors import ConfigError
from torchzk.ops.layout import rows_to_points, unpack
from torchzk.params import integers
from torchzk.params.curves import G1, G2, Curve
from torchzk.params.fields import FP, FR

SIZE = 8


@pytest.fixture(scope="module")
def shop(device: torch.device) -> Workshop:
    return Workshop(load_backend("torch"), "torch", device)


def test_each_benchmark_has_an_operation_and_a_file() -> None:
    assert {b.operation for b in BENCHMARKS} == set(OPERATIONS)
    assert {group_of(b.operation) for b in BENCHMARKS} == set(GROUPS.values())


@pytest.mark.parametrize("operation", OPERATIONS)
def test_one_wrong_bit_is_noticed(shop: Workshop, operation: str) -> None:
    prepared = OPERATIONS[operation](Benchmark(operation, SIZE), shop)
    assert prepared.work > 0 and prepared.floor
    result = prepared.call()
    assert prepared.is_right(result)
    if isinstance(result, torch.Tensor):
        for at in (0, result.numel() - 1):
            spoiled = result.clone()
            spoiled.view(-1)[at] ^= 1
            assert not prepared.is_right(spoiled)
    else:
        (x, *more), y = result
        assert not prepared.is_right(((x ^ 1, *more), y))
        assert not prepared.is_right(None)
    # inputs are as they were
    again = prepared.call()
    assert torch.equal(again, result) if isinstance(result, torch.Tensor) else again == result


@pytest.mark.parametrize("inputs", ["equal", "ones90", "sorted", "bits16"])
def test_skewed_scalars(shop: Workshop, inputs: Inputs) -> None:
    values = unpack(shop.scalars(64, inputs))
    assert all(0 <= v < FR.modulus for v in values)
    assert len(set(values)) == 1 if inputs == "equal" else len(set(values)) > 1
    assert (sum(v == 1 for v in values) > 40) == (inputs == "ones90")
    assert (values == sorted(values)) == (inputs in ("equal", "sorted"))
    assert (max(values) < 1 << 16) == (inputs == "bits16")


def test_the_chosen_half_is_judged(shop: Workshop) -> None:
    prepared = OPERATIONS["batch_add.g1"](Benchmark("batch_add.g1", 16, "half"), shop)
    assert 0 < prepared.work < 16
    assert prepared.is_right(prepared.call())
    whole = OPERATIONS["batch_add.g1"](Benchmark("batch_add.g1", 16), shop)
    assert not prepared.is_right(whole.call())


@pytest.mark.parametrize("curve", [G1, G2], ids=["g1", "g2"])
def test_logarithms_of_points(
    shop: Workshop, curve: Curve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In blocks, the last one cut short; and a point that is another is noticed."""
    monkeypatch.setattr("torchzk.bench.workshop.BLOCK", 4)
    shop.forget()
    known = shop.points(curve, 10)
    low, high = unpack(known.low), unpack(known.high)
    logs = [low[i % 4] + high[i // 4] for i in range(10)]
    assert len({k % FR.modulus for k in logs}) == 10
    expected = [integers.mul(curve, k % FR.modulus, curve.generator) for k in logs]
    assert rows_to_points(known.rows, curve) == expected
    scalars = shop.scalars(10, "uniform")
    assert known.logarithm(scalars) == sum(
        k * s for k, s in zip(logs, unpack(scalars), strict=True)
    )
    assert known.are_right()
    known.rows[9] = known.rows[8]
    assert not known.are_right()
    shop.forget()


def test_exact_sums(shop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exact, "_PIECE", 7)
    x, y = shop.below(FP, 20, 1), shop.below(FR, 20, 2)
    y[:, 3] = -1
    assert exact.total(x) == sum(unpack(x))
    assert exact.dot(x, y) == sum(u * v for u, v in zip(unpack(x), unpack(y), strict=True))
    wide = torch.full((2, 20), (1 << 40) - 1)
    value = ((1 << 40) - 1) * (1 + (1 << 32))
    assert exact.dot(y, wide) == sum(unpack(y)) * value


def test_transforms_are_of_powers_of_two(shop: Workshop) -> None:
    with pytest.raises(ConfigError, match=r"2\^k"):
        OPERATIONS["ntt"](Benchmark("ntt", 12), shop)
