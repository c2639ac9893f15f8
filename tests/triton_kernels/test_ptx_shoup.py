"""Inline PTX of butterflies against integers, on the CPU, with the bounds that they promise."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import pytest

from torchzk.params.fields import FR, split
from torchzk.triton_kernels.code import field_code
from torchzk.triton_kernels.ntt_code import ntt_code
from triton_kernels import ptx_interpreter

P, R = FR.modulus, 1 << 256
CODE = ntt_code(field_code(FR, 1, "ptx"))
NEAR = P + (P >> 25)
TOP = P >> 224 << 224


def run(text: str, n_results: int, *arguments: Sequence[int]) -> list[list[int]]:
    words = [np.array(column, np.uint32) for a in arguments for column in _columns(a)]
    out = ptx_interpreter.run(text, 8 * n_results, words)
    results = [out[i : i + 8] for i in range(0, len(out), 8)]
    return [
        [sum(int(w) << 32 * i for i, w in enumerate(e)) for e in zip(*r, strict=True)]
        for r in results
    ]


def _columns(values: Sequence[int]) -> list[tuple[int, ...]]:
    return list(zip(*(split(v, 8) for v in values), strict=True))


def some(seed: int, below: int, n: int = 30) -> list[int]:
    rng = random.Random(seed)
    edges = [0, 1, P - 1, P, P + 1, TOP, TOP - 1, TOP + (1 << 224) - 1, 2 * P - 1, 2 * P, R - 1]
    return [v for v in edges if v < below] + [rng.randrange(below) for _ in range(n)]


def grid(below_u: int, below_v: int) -> tuple[list[int], list[int], list[int], list[int]]:
    """Pairs u, v of all edges, each with a constant and its quotient."""
    pairs = [(u, v) for u in some(1, below_u) for v in some(2, below_v)]
    constants = some(3, P)
    w = [constants[i % len(constants)] for i in range(len(pairs))]
    u, v = (list(x) for x in zip(*pairs, strict=True))
    return u, v, w, [x * R // P for x in w]


def test_mul() -> None:
    """Every constant by any eight words."""
    pairs = [(v, w) for v in some(4, R) for w in some(5, P)]
    v, w = (list(x) for x in zip(*pairs, strict=True))
    (got,) = run(CODE.mul, 1, v, w, [x * R // P for x in w])
    assert [x % P for x in got] == [x * y % P for x, y in pairs]
    assert all(x < P + P * y // R + (P >> 28) for x, y in zip(got, v, strict=True))


def test_low_product() -> None:
    pairs = [(v, w) for v in some(6, R) for w in some(7, R)]
    v, w = (list(x) for x in zip(*pairs, strict=True))
    assert run(CODE.low_product, 1, v, w) == [[x * y % R for x, y in pairs]]


@pytest.mark.parametrize("trivial", [False, True])
def test_forth(trivial: bool) -> None:
    u, v, w, q = grid(NEAR, NEAR)
    if trivial:
        w = [1] * len(u)
        sums, products = run(CODE.forth_trivial, 2, u, v)
    else:
        sums, products = run(CODE.forth, 2, u, v, w, q)
    assert [x % P for x in sums] == [(x + y) % P for x, y in zip(u, v, strict=True)]
    assert [x % P for x in products] == [(x - y) * k % P for x, y, k in zip(u, v, w, strict=True)]
    # sums carry on twice what their terms exceeded p by
    assert max(sums) < P + 2 * (P >> 25) + (1 << 224) and max(products) < NEAR


@pytest.mark.parametrize("trivial", [False, True])
def test_back(trivial: bool) -> None:
    u, v, w, q = grid(2 * P, 2 * P)
    if trivial:
        w = [1] * len(u)
        sums, differences = run(CODE.back_trivial, 2, u, v)
    else:
        sums, differences = run(CODE.back, 2, u, v, w, q)
    rows = list(zip(u, v, w, strict=True))
    assert [x % P for x in sums] == [(x + y * k) % P for x, y, k in rows]
    assert [x % P for x in differences] == [(x - y * k) % P for x, y, k in rows]
    assert max(sums + differences) < 2 * NEAR


def test_canonical_and_minus() -> None:
    a = some(8, 2 * NEAR)
    assert run(CODE.canonical, 1, a) == [[x % P for x in a]]
    u, v, *_ = grid(NEAR, NEAR)
    (got,) = run(CODE.minus, 1, u, v)
    assert [x % P for x in got] == [(x - y) % P for x, y in zip(u, v, strict=True)]
    assert max(got) < 2 * P
