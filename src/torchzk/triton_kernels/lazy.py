"""Field operations that leave a multiple of p in their results, for the addition of points.

Fp and Fp2, as `F` says. With p / R = 0.102, factors below 2 p and 1.7 p make a product below
1.4 p in Fp and below 1.7 p in Fp2, so a chain of products never leaves that range; what is
stored as a coordinate is brought back to [0, p). The plain variant is canonical throughout.
"""

from __future__ import annotations

from collections.abc import Callable

import triton
import triton.language as tl

from torchzk.params.fields import FP
from torchzk.triton_kernels import limbs, ptx, ptx_montgomery
from torchzk.triton_kernels.ptx import Block, Words

_L = FP.n_limbs
_P = ptx.immediates(FP.modulus, _L)
_2P = ptx.immediates(2 * FP.modulus, _L)


def _parts(a: Words) -> list[Words]:
    """The coordinates of an element."""
    return [a[i : i + _L] for i in range(0, len(a), _L)]


def _sub(block: Block, out: Words, a: Words, b: Words) -> None:
    """a - b + p for a, b in [0, p]: at most 2 p."""
    for o, x, y in zip(_parts(out), _parts(a), _parts(b), strict=True):
        ptx.sub_lazy(block, o, x, y, FP.modulus)


def _neg(block: Block, out: Words, a: Words) -> None:
    """p - a for a in [0, p]: p for 0."""
    for o, x in zip(_parts(out), _parts(a), strict=True):
        ptx.sub(block, o, _P, x)


def _mul(block: Block, out: Words, a: Words, b: Words) -> None:
    """a b for a at most 2 p."""
    if len(a) == _L:
        ptx_montgomery.mul(block, out, a, b, FP, lazy=True)
        return
    (a0, a1), (b0, b1), (c0, c1) = _parts(a), _parts(b), _parts(out)
    minus_a1 = block.words(_L)
    ptx.sub(block, minus_a1, _2P, a1)
    ptx_montgomery.dot(block, c0, [(a0, b0), (minus_a1, b1)], FP, lazy=True)
    ptx_montgomery.dot(block, c1, [(a0, b1), (a1, b0)], FP, lazy=True)


def _sqr(block: Block, out: Words, a: Words) -> None:
    """a^2 below 2 p for a below 1.7 p; in Fp2 (a0 + a1)(a0 - a1) is below 2.3 p at first."""
    if len(a) == _L:
        ptx_montgomery.sqr(block, out, a, FP, lazy=True)
        return
    (a0, a1), (c0, c1) = _parts(a), _parts(out)
    total, difference, twice, first = (block.words(_L) for _ in range(4))
    ptx.add(block, total, a0, a1)
    ptx.sub_lazy(block, difference, a0, a1, 2 * FP.modulus)
    ptx_montgomery.mul(block, first, total, difference, FP, lazy=True)
    ptx.reduce_once(block, c0, first, _P)
    ptx.add(block, twice, a0, a0)
    ptx_montgomery.mul(block, c1, twice, a1, FP, lazy=True)


def _sub_two(block: Block, out: Words, a: Words, b: Words, c: Words) -> None:
    """a - b - c in [0, p) for a below 2 p and b, c in [0, p)."""
    for o, x, y, z in zip(_parts(out), _parts(a), _parts(b), _parts(c), strict=True):
        both, rest, less = (block.words(_L) for _ in range(3))
        ptx.add(block, both, y, z)
        ptx.sub_lazy(block, rest, x, both, 2 * FP.modulus)
        ptx.reduce_once(block, less, rest, _2P)
        ptx.reduce_once(block, o, less, _P)


def _sub_exact(block: Block, out: Words, a: Words, b: Words) -> None:
    """a - b in [0, p) for a below 2 p and b in [0, p]."""
    for o, x, y in zip(_parts(out), _parts(a), _parts(b), strict=True):
        rest, less = (block.words(_L) for _ in range(2))
        ptx.sub_lazy(block, rest, x, y, FP.modulus)
        ptx.reduce_once(block, less, rest, _2P)
        ptx.reduce_once(block, o, less, _P)


def _reduce(block: Block, out: Words, a: Words) -> None:
    """a in [0, p) for a below 2 p."""
    for o, x in zip(_parts(out), _parts(a), strict=True):
        ptx.reduce_once(block, o, x, _P)


def _texts(body: Callable[..., None], n_arguments: int) -> tl.constexpr:
    """The asm block of each degree."""
    return tl.constexpr({d: ptx.write(body, d * _L, n_arguments) for d in (1, 2)})


_SUB, _NEG = _texts(_sub, 2), _texts(_neg, 1)
_MUL, _SQR = _texts(_mul, 2), _texts(_sqr, 1)
_SUB_TWO, _SUB_EXACT, _REDUCE = _texts(_sub_two, 3), _texts(_sub_exact, 2), _texts(_reduce, 1)
_TERNARY = tl.constexpr({d: ptx.constraints(d * _L, 3) for d in (1, 2)})


@triton.jit
def sub(a, b, F: tl.constexpr):
    """a - b, at most 2 p, for a, b in [0, p]."""
    if F.variant == "ptx":
        return tl.inline_asm_elementwise(
            _SUB[F.degree], F.binary, a + b, F.types, is_pure=True, pack=1
        )
    else:
        return limbs.sub(a, b, F)


@triton.jit
def neg(a, F: tl.constexpr):
    """-a in [0, p] for a in [0, p)."""
    if F.variant == "ptx":
        return tl.inline_asm_elementwise(_NEG[F.degree], F.unary, a, F.types, is_pure=True, pack=1)
    else:
        return limbs.neg(a, F)


@triton.jit
def mul(a, b, F: tl.constexpr):
    """a b below 1.7 p, for a at most 2 p and b below 1.7 p."""
    if F.variant == "ptx":
        return tl.inline_asm_elementwise(
            _MUL[F.degree], F.binary, a + b, F.types, is_pure=True, pack=1
        )
    else:
        return limbs.mul(a, b, F)


@triton.jit
def third(xa, ya, xb, rise, inverse, F: tl.constexpr):
    """The sum of two points from the rise and the inverse of the run of their line."""
    slope = mul(rise, inverse, F)
    if F.variant == "ptx":
        square = tl.inline_asm_elementwise(
            _SQR[F.degree], F.unary, slope, F.types, is_pure=True, pack=1
        )
        x = tl.inline_asm_elementwise(
            _SUB_TWO[F.degree],
            _TERNARY[F.degree],
            square + xa + xb,
            F.types,
            is_pure=True,
            pack=1,
        )
        product = mul(sub(xa, x, F), slope, F)
        return x, tl.inline_asm_elementwise(
            _SUB_EXACT[F.degree],
            F.binary,
            product + ya,
            F.types,
            is_pure=True,
            pack=1,
        )
    else:
        x = limbs.sub(limbs.sqr(slope, F), limbs.add(xa, xb, F), F)
        return x, limbs.sub(mul(sub(xa, x, F), slope, F), ya, F)


@triton.jit
def reduce(a, F: tl.constexpr):
    """a in [0, p) for a below 2 p."""
    if F.variant == "ptx":
        return tl.inline_asm_elementwise(
            _REDUCE[F.degree], F.unary, a, F.types, is_pure=True, pack=1
        )
    else:
        return a
