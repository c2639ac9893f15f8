"""Fp2 = Fp[u] / (u^2 + 1) in inline PTX: words of c0, then words of c1, for c0 + c1 u.

Every result is canonical. p / R is about 0.1, which the bounds below use.
"""

from __future__ import annotations

from torchzk.params.fields import PrimeField
from torchzk.triton_kernels import ptx, ptx_montgomery
from torchzk.triton_kernels.ptx import Block, Words


def _halves(a: Words) -> tuple[Words, Words]:
    return a[: len(a) // 2], a[len(a) // 2 :]


def add_mod(block: Block, out: Words, a: Words, b: Words, field: PrimeField) -> None:
    """out = a + b."""
    for o, x, y in zip(_halves(out), _halves(a), _halves(b), strict=True):
        ptx.add_mod(block, o, x, y, field)


def sub_mod(block: Block, out: Words, a: Words, b: Words, field: PrimeField) -> None:
    """out = a - b."""
    for o, x, y in zip(_halves(out), _halves(a), _halves(b), strict=True):
        ptx.sub_mod(block, o, x, y, field)


def neg_mod(block: Block, out: Words, a: Words, field: PrimeField) -> None:
    """out = -a."""
    for o, x in zip(_halves(out), _halves(a), strict=True):
        ptx.neg_mod(block, o, x, field)


def mul(block: Block, out: Words, a: Words, b: Words, field: PrimeField) -> None:
    """out = a b: two sums of two products, each with one reduction.

    c0 = a0 b0 + (p - a1) b1 with p - a1 in (0, p], so both sums lie below 2 p^2.
    """
    (a0, a1), (b0, b1), (c0, c1) = _halves(a), _halves(b), _halves(out)
    minus_a1 = block.words(len(a1))
    ptx.sub(block, minus_a1, ptx.immediates(field.modulus, len(a1)), a1)
    ptx_montgomery.dot(block, c0, [(a0, b0), (minus_a1, b1)], field)
    ptx_montgomery.dot(block, c1, [(a0, b1), (a1, b0)], field)


def sqr(block: Block, out: Words, a: Words, field: PrimeField) -> None:
    """out = a^2: c0 = (a0 + a1)(a0 - a1), both factors below 2p; c1 = 2 a0 a1."""
    (a0, a1), (c0, c1) = _halves(a), _halves(out)
    total, difference, twice = (block.words(len(a0)) for _ in range(3))
    ptx.add(block, total, a0, a1)
    ptx.sub_lazy(block, difference, a0, a1, field.modulus)
    ptx_montgomery.mul(block, c0, total, difference, field)
    ptx.add(block, twice, a0, a0)
    ptx_montgomery.mul(block, c1, twice, a1, field)
