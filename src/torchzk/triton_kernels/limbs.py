"""Device functions on field elements: the contract every kernel here is built on.

An element is a tuple of `F.W` blocks of uint32, all of one shape, least significant word first;
an element of Fp2 is the words of c0, then those of c1. `F` is a `tl.constexpr` holding a
`FieldCode`, which says field, degree and variant; the same source serves all of them:

    load(ptr, plane, offs, mask, F)          planes: word i of element o at ptr + i * plane + o
    load_row(ptr, offs, mask, F)             rows: word i at ptr + o + i, o in words
    store, store_row                         the same with the element before F
    add(a, b, F)  sub(a, b, F)  neg(a, F)  dbl(a, F)
    mul(a, b, F)  sqr(a, F)                  Montgomery products a b / R
    is_zero(a, F)                            blocks of int1
    select(c, a, b, F)                       a where c, else b
    constant(words, like, F)                 constant words, as `F.one`, shaped as the block `like`
    c0(a, F)  c1(a, F)                       the coordinates of an element of Fp2, of `F.prime`

Arguments and results lie in [0, p), with one exception, in the prime fields: the second factor of
`mul` may be any number of L words, and the result is canonical all the same.
`offs` and `plane` are int64: a plane times a word count passes 2^31. Masked lanes load zero, and
zero is harmless to every function. Tuples concatenate with `+`. To call asm of one's own, see
`code.FieldCode` for how texts travel, and `ptx` for how they are written.

The plain variant is what Triton makes of uint64 products; the rows of a product are a loop and not
unrolled, which costs some speed and saves minutes of compilation.
"""

# in kernels a tuple grows
# mypy: disable-error-code="assignment, misc"
from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def load(ptr, plane, offs, mask, F: tl.constexpr):
    x = ()
    W: tl.constexpr = F.W
    for i in tl.static_range(W):
        word = tl.load(ptr + i * plane + offs, mask=mask, other=0)
        x = x + (word.to(tl.uint32, bitcast=True),)
    return x


@triton.jit
def store(ptr, plane, offs, mask, x, F: tl.constexpr):
    W: tl.constexpr = F.W
    for i in tl.static_range(W):
        tl.store(ptr + i * plane + offs, x[i].to(tl.int32, bitcast=True), mask=mask)


@triton.jit
def load_row(ptr, offs, mask, F: tl.constexpr):
    return load(ptr, 1, offs, mask, F)


@triton.jit
def store_row(ptr, offs, mask, x, F: tl.constexpr):
    store(ptr, 1, offs, mask, x, F)


@triton.jit
def constant(words, like, F: tl.constexpr):
    x = ()
    W: tl.constexpr = F.W
    for i in tl.static_range(W):
        x = x + (tl.full(like.shape, words[i], tl.uint32),)
    return x


@triton.jit
def is_zero(a, F: tl.constexpr):
    W: tl.constexpr = F.W
    bits = a[0]
    for i in tl.static_range(1, W):
        bits = bits | a[i]
    return bits == 0


@triton.jit
def equal(a, b, F: tl.constexpr):
    W: tl.constexpr = F.W
    differs = a[0] ^ b[0]
    for i in tl.static_range(1, W):
        differs = differs | (a[i] ^ b[i])
    return differs == 0


@triton.jit
def select(c, a, b, F: tl.constexpr):
    x = ()
    W: tl.constexpr = F.W
    for i in tl.static_range(W):
        x = x + (tl.where(c, a[i], b[i]),)
    return x


@triton.jit
def add(a, b, F: tl.constexpr):
    if F.variant == "ptx":
        return tl.inline_asm_elementwise(F.add, F.binary, a + b, F.types, is_pure=True, pack=1)
    elif F.degree == 2:
        P: tl.constexpr = F.prime
        return add(c0(a, F), c0(b, F), P) + add(c1(a, F), c1(b, F), P)
    else:
        return _reduce_once(_sum(a, b, F), F)


@triton.jit
def sub(a, b, F: tl.constexpr):
    if F.variant == "ptx":
        return tl.inline_asm_elementwise(F.sub, F.binary, a + b, F.types, is_pure=True, pack=1)
    elif F.degree == 2:
        P: tl.constexpr = F.prime
        return sub(c0(a, F), c0(b, F), P) + sub(c1(a, F), c1(b, F), P)
    else:
        difference, borrow = _difference(a, b, F)
        return select(borrow, _sum(difference, F.p, F), difference, F)


@triton.jit
def neg(a, F: tl.constexpr):
    if F.variant == "ptx":
        return tl.inline_asm_elementwise(F.neg, F.unary, a, F.types, is_pure=True, pack=1)
    else:
        zero = ()
        W: tl.constexpr = F.W
        for _ in tl.static_range(W):
            zero = zero + (tl.zeros_like(a[0]),)
        return sub(zero, a, F)


@triton.jit
def dbl(a, F: tl.constexpr):
    return add(a, a, F)


@triton.jit
def mul(a, b, F: tl.constexpr):
    if F.variant == "ptx":
        return tl.inline_asm_elementwise(F.mul, F.binary, a + b, F.types, is_pure=True, pack=1)
    elif F.degree == 2:
        # Karatsuba: c1 = (a0 + a1)(b0 + b1) - a0 b0 - a1 b1
        P: tl.constexpr = F.prime
        low = mul(c0(a, F), c0(b, F), P)
        high = mul(c1(a, F), c1(b, F), P)
        sums = mul(add(c0(a, F), c1(a, F), P), add(c0(b, F), c1(b, F), P), P)
        return sub(low, high, P) + sub(sub(sums, low, P), high, P)
    else:
        return _mul_by_rows(a, b, F)


@triton.jit
def sqr(a, F: tl.constexpr):
    if F.variant == "ptx":
        return tl.inline_asm_elementwise(F.sqr, F.unary, a, F.types, is_pure=True, pack=1)
    elif F.degree == 2:
        # c0 = (a0 + a1)(a0 - a1), c1 = 2 a0 a1
        P: tl.constexpr = F.prime
        x = c0(a, F)
        y = c1(a, F)
        return mul(add(x, y, P), sub(x, y, P), P) + dbl(mul(x, y, P), P)
    else:
        return mul(a, a, F)


@triton.jit
def c0(a, F: tl.constexpr):
    """The first coordinate of an element of Fp2."""
    x = ()
    L: tl.constexpr = F.L
    for i in tl.static_range(L):
        x = x + (a[i],)
    return x


@triton.jit
def c1(a, F: tl.constexpr):
    """The second coordinate of an element of Fp2."""
    x = ()
    L: tl.constexpr = F.L
    for i in tl.static_range(L):
        x = x + (a[L + i],)
    return x


@triton.jit
def _mul_by_rows(a, b, F: tl.constexpr):
    """a b / R: row by row, t = (t + a b_i + m p) / 2^32; bounds as in `ptx_montgomery`.

    A tuple cannot be indexed by a loop variable, so b turns by one word a row.
    """
    L: tl.constexpr = F.L
    t = ()
    for _ in tl.static_range(L):
        t = t + (tl.zeros_like(a[0]),)
    for _ in range(L):
        s = ()
        top = tl.zeros_like(a[0]).to(tl.uint64)
        for j in tl.static_range(L):
            acc = a[j].to(tl.uint64) * b[0] + t[j] + top
            s = s + (acc.to(tl.uint32),)
            top = acc >> 32
        m = (s[0] * F.n0_inv).to(tl.uint64)
        carry = (m * F.p[0] + s[0]) >> 32
        t = ()
        turned = ()
        for j in tl.static_range(1, L):
            acc = m * F.p[j] + s[j] + carry
            t = t + (acc.to(tl.uint32),)
            turned = turned + (b[j],)
            carry = acc >> 32
        t = t + ((top + carry).to(tl.uint32),)
        b = turned + (b[0],)
    return _reduce_once(t, F)


@triton.jit
def _sum(a, b, F: tl.constexpr):
    """a + b mod 2^(32 L)."""
    L: tl.constexpr = F.L
    x = ()
    carry = tl.zeros_like(a[0]).to(tl.uint64)
    for j in tl.static_range(L):
        acc = carry + a[j] + b[j]
        x = x + (acc.to(tl.uint32),)
        carry = acc >> 32
    return x


@triton.jit
def _difference(a, b, F: tl.constexpr):
    """a - b mod 2^(32 L), and whether a < b."""
    L: tl.constexpr = F.L
    x = ()
    borrow = tl.zeros_like(a[0]).to(tl.uint64)
    for j in tl.static_range(L):
        acc = a[j].to(tl.uint64) - b[j] - borrow
        x = x + (acc.to(tl.uint32),)
        borrow = acc >> 63
    return x, borrow != 0


@triton.jit
def _reduce_once(t, F: tl.constexpr):
    """From [0, 2p) to [0, p)."""
    reduced, below = _difference(t, F.p, F)
    return select(below, t, reduced, F)
