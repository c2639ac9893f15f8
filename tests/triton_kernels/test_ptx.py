"""The text of the asm blocks, run word by word, against integers."""

from __future__ import annotations

import random
from itertools import product

import numpy as np
import pytest

from torchzk.params.fields import FIELDS, FP, FR, PrimeField, split
from torchzk.triton_kernels import ptx, ptx_montgomery
from torchzk.triton_kernels.code import field_code
from torchzk.triton_kernels.variants import edges
from triton_kernels import asm_blocks, ptx_interpreter
from triton_kernels.samples import sample


def to_words(values: list[int], n: int) -> list[np.ndarray]:
    return [np.array(w, np.uint32) for w in zip(*(split(v, n) for v in values), strict=True)]


def run(text: str, n: int, *arguments: list[int]) -> list[int]:
    words = [w for a in arguments for w in to_words(a, n)]
    got = ptx_interpreter.run(text, n, words)
    return [sum(int(w) << 32 * i for i, w in enumerate(e)) for e in zip(*got, strict=True)]


def pairs(field: PrimeField) -> tuple[list[int], list[int]]:
    """Every edge against every edge, then random elements."""
    x, y = map(list, zip(*product(edges(field), repeat=2), strict=True))
    return x + sample(field, 500, 1), y + sample(field, 500, 2)


@pytest.mark.parametrize("field", FIELDS.values(), ids=FIELDS)
def test_blocks_of_prime_fields(field: PrimeField) -> None:
    code, p, r_inv = field_code(field, 1, "ptx"), field.modulus, field.r_inv
    x, y = pairs(field)
    xy = list(zip(x, y, strict=True))
    assert run(code.add, code.W, x, y) == [(a + b) % p for a, b in xy]
    assert run(code.sub, code.W, x, y) == [(a - b) % p for a, b in xy]
    assert run(code.neg, code.W, x) == [-a % p for a in x]
    assert run(code.mul, code.W, x, y) == [a * b * r_inv % p for a, b in xy]
    assert run(code.sqr, code.W, x) == [a * a * r_inv % p for a in x]


@pytest.mark.parametrize("field", FIELDS.values(), ids=FIELDS)
def test_second_factor_may_be_anything(field: PrimeField) -> None:
    code, p, top = field_code(field, 1, "ptx"), field.modulus, 1 << 32 * field.n_limbs
    rng = random.Random(3)
    x = [p - 1, p - 1, 1, *(rng.randrange(p) for _ in range(500))]
    y = [top - 1, p, top - 1, *(rng.randrange(top) for _ in range(500))]
    expected = [a * b * field.r_inv % p for a, b in zip(x, y, strict=True)]
    assert run(code.mul, code.W, x, y) == expected


@pytest.mark.parametrize("field", FIELDS.values(), ids=FIELDS)
def test_lazy_products_keep_their_bound(field: PrimeField) -> None:
    p, n, top = field.modulus, field.n_limbs, 1 << 32 * field.n_limbs

    def lazy(block: ptx.Block, out: list[str], a: list[str], b: list[str]) -> None:
        ptx_montgomery.mul(block, out, a, b, field, lazy=True)

    x, y = pairs(field)
    got = run(ptx.write(lazy, n, 2), n, x, y)
    for a, b, c in zip(x, y, got, strict=True):
        assert c % p == a * b * field.r_inv % p
        assert c * top < a * b + p * top


def test_blocks_of_fp2() -> None:
    code, p, r_inv, n = field_code(FP, 2, "ptx"), FP.modulus, FP.r_inv, FP.n_limbs
    a0, a1 = pairs(FP)
    b0, b1 = a1[7:] + a1[:7], a0[11:] + a0[:11]

    def join(c0: list[int], c1: list[int]) -> list[int]:
        return [x % p + (y % p << 32 * n) for x, y in zip(c0, c1, strict=True)]

    a, b = join(a0, a1), join(b0, b1)
    four = list(zip(a0, a1, b0, b1, strict=True))
    assert run(code.add, 2 * n, a, b) == join(
        [x + z for x, _, z, _ in four], [y + w for _, y, _, w in four]
    )
    assert run(code.sub, 2 * n, a, b) == join(
        [x - z for x, _, z, _ in four], [y - w for _, y, _, w in four]
    )
    assert run(code.neg, 2 * n, a) == join([-x for x in a0], [-y for y in a1])
    assert run(code.mul, 2 * n, a, b) == join(
        [(x * z - y * w) * r_inv for x, y, z, w in four],
        [(x * w + y * z) * r_inv for x, y, z, w in four],
    )
    assert run(code.sqr, 2 * n, a) == join(
        [(x * x - y * y) * r_inv for x, y, *_ in four], [2 * x * y * r_inv for x, y, *_ in four]
    )


def test_only_fr_has_cheap_words() -> None:
    assert ptx_montgomery.has_cheap_words(FR)
    assert not ptx_montgomery.has_cheap_words(FP)


def test_interpreter_refuses_what_it_does_not_know() -> None:
    with pytest.raises(KeyError, match="xor"):
        ptx_interpreter.run("{ xor.b32 $0, $1, $1; }", 1, [np.zeros(1, np.uint32)])


def test_results_share_no_register_with_arguments() -> None:
    """`out` is written before everything is read, so compilers have to be told."""
    outputs = [c for c in ptx.constraints(3, 2).split(",") if c.startswith("=")]
    assert outputs == ["=&r"] * 3
    text = """
        // begin inline asm
        {{
        .reg .u32 t<2>;
        add.u32 t0, %r1, %r2;
        mov.u32 {out}, t0;
        add.u32 %r4, {out}, %r2;
        }}
        // end inline asm
    """
    assert asm_blocks.overwritten(text.format(out="%r3")) == set()
    assert asm_blocks.overwritten(text.format(out="%r2")) == {"%r2"}
