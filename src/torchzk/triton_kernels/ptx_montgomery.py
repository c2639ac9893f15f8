"""Montgomery products and squares in inline PTX.

A row adds a * b_i to the running sum t, adds the multiple m of p that clears its lowest word, and
drops that word; after L rows t = a b / R mod p. The words of a * b_i overlap by one, so t is
kept as two numbers: `even` takes the products of a_0, a_2, ..., and `odd`, worth 2^32 times as
much, those of a_1, a_3, .... Within each, 64-bit products lie side by side: one unbroken chain
`mad.lo.cc, madc.hi.cc, ...`, of which ptxas fuses each pair into one wide multiply-add with carry.
Dropping a word swaps the two: `odd` becomes `even`, and what is left of `even` the new `odd`.

Bounds. With b any number below R, t stays below a + p: after a row it is at most
(t + (2^32 - 1)(a + p)) / 2^32. At the end t = (a b + m p) / R with m < R, so t < a b / R + p.
Hence for `mul` a + p < R is needed, `b` may be any number of L words, and a b < R p makes
t < 2p, which one conditional subtraction brings to [0, p).

Source: P. L. Montgomery, Modular multiplication without trial division, Math. Comp. 44 (1985);
the split in even and odd products is that of sppark's `mont_t`.
"""

from __future__ import annotations

from torchzk.params.fields import PrimeField
from torchzk.triton_kernels.ptx import Block, Words, add, immediates, reduce_once


def mul(
    block: Block, out: Words, a: Words, b: Words, field: PrimeField, lazy: bool = False
) -> None:
    """out = a b / R mod p in [0, p); `lazy` leaves it below a b / R + p (see above)."""
    dot(block, out, [(a, b)], field, lazy)


def dot(
    block: Block,
    out: Words,
    pairs: list[tuple[Words, Words]],
    field: PrimeField,
    lazy: bool = False,
) -> None:
    """out = (a b + c d + ...) / R mod p for pairs (a, b), (c, d), ..., with one reduction.

    The sum of the first factors plus p must fit in L words: two pairs take two spare bits on top
    of p (Fp has three, Fr one). `lazy` leaves out below the sum of products, over R, plus p.
    """
    n = len(out)
    even, odd = block.words(n), block.words(n)
    for i in range(n):
        for k, (a, b) in enumerate(pairs):
            if i == 0 and k == 0:
                products(block, odd, _odd_words(a), b[0], _zeros(n))
                products(block, even, a, b[0], _zeros(n))
                continue
            if k == 0:
                # the word of the old `even` that has no place in the new `odd`
                block("add.cc.u32", even[0], even[0], odd[1])
                products(block, odd, _odd_words(a), b[i], _shifted(odd), carry_in=True)
            else:
                products(block, odd, _odd_words(a), b[i], odd)
            products(block, even, a, b[i], even)
            block("addc.u32", odd[n - 1], odd[n - 1], "0")
        _clear_low_word(block, even, odd, odd, field)
        even, odd = odd, even
    _finish(block, out, _merged(block, even, odd), field, lazy)


def sqr(block: Block, out: Words, a: Words, field: PrimeField, lazy: bool = False) -> None:
    """out = a^2 / R mod p; bounds as for `mul`, and a < R / 2.

    The cross products once, doubled, plus the squares of the words: 2 L words, of which L rows
    of reduction clear the lower half.
    """
    n = len(out)
    wide = _square(block, a)
    even, odd = wide[:n], block.words(n)
    for i in range(n):
        if i:
            block("add.cc.u32", even[0], even[0], odd[1])
        addends = _shifted(odd) if i else _zeros(n)
        _clear_low_word(block, even, odd, addends, field, carry_in=i > 0)
        even, odd = odd, even
    total = block.words(n)
    add(block, total, _merged(block, even, odd), wide[n:])
    _finish(block, out, total, field, lazy)


def products(
    block: Block, out: Words, a: Words, b: str, addends: Words, carry_in: bool = False
) -> None:
    """out = addends + (a_0 b) + (a_2 b) 2^64 + ..., the carry left in the flag."""
    for j in range(0, len(a), 2):
        carry = "c" if j or carry_in else ""
        block(f"mad{carry}.lo.cc.u32", out[j], a[j], b, addends[j])
        block("madc.hi.cc.u32", out[j + 1], a[j], b, addends[j + 1])


def has_cheap_words(field: PrimeField) -> bool:
    """Whether p = 1 - 2^32 mod 2^64, as for Fr: p_0 = 1 and p_1 = 2^32 - 1."""
    return field.modulus % (1 << 64) == (1 - (1 << 32)) % (1 << 64)


def _clear_low_word(
    block: Block,
    even: Words,
    odd: Words,
    addends: Words,
    field: PrimeField,
    carry_in: bool = False,
) -> None:
    """Add the multiple of p that makes even[0] zero; odd = addends + carry + its part of it."""
    n, m = len(even), block.word()
    p = immediates(field.modulus, n)
    if not has_cheap_words(field):
        n0_inv = -pow(field.modulus, -1, 1 << 32) % (1 << 32)
        block("mul.lo.u32", m, even[0], hex(n0_inv))
        products(block, odd, _odd_words(p), m, addends, carry_in)
        products(block, even, p, m, even)
    else:
        # m = -even[0], and m p_0 = m: the low word of the sum is zero, with a carry unless m is
        # zero. m p_1 = m 2^32 - m = (m - carry) 2^32 + even[0]. Neither takes a multiplication.
        carry, high = block.words(2)
        block("sub.u32", m, "0", even[0])
        block("min.u32", carry, m, "1")
        block("sub.u32", high, m, carry)
        block(f"add{'c' if carry_in else ''}.cc.u32", odd[0], addends[0], even[0])
        block("addc.cc.u32", odd[1], addends[1], high)
        products(block, odd[2:], _odd_words(p)[2:], m, addends[2:], carry_in=True)
        block("add.cc.u32", even[0], even[0], m)
        block("addc.cc.u32", even[1], even[1], "0")
        products(block, even[2:], p[2:], m, even[2:], carry_in=True)
    block("addc.u32", odd[n - 1], odd[n - 1], "0")


def _square(block: Block, a: Words) -> list[str]:
    """The 2 L words of a^2."""
    n = len(a)
    # sums of a_i a_j over i < j, those with i + j even apart from those with i + j odd
    sums: list[dict[int, str]] = [{}, {}]
    for i in range(n - 1):
        for parity, words in enumerate(sums):
            _add_row(block, words, a, i, [j for j in range(i + 1, n) if (i + j) % 2 == parity])
    # word 0 of the cross products is zero
    cross, doubled = block.words(2 * n - 1), block.words(2 * n - 1)
    even, odd = ([words.get(k, "0") for k in range(1, 2 * n)] for words in sums)
    add(block, cross, even, odd)
    add(block, doubled, cross, cross)
    doubled = ["0", *doubled]
    out = block.words(2 * n)
    for k in range(n):
        carry = "c" if k else ""
        block(f"mad{carry}.lo.cc.u32", out[2 * k], a[k], a[k], doubled[2 * k])
        block("madc.hi.cc.u32", out[2 * k + 1], a[k], a[k], doubled[2 * k + 1])
    return out


def _add_row(block: Block, words: dict[int, str], a: Words, i: int, columns: list[int]) -> None:
    """Add a_i a_j at word i + j for the columns j, two apart; words not there yet are zero."""
    for j in columns:
        low, high = words.get(i + j, "0"), words.get(i + j + 1, "0")
        words[i + j], words[i + j + 1] = block.words(2)
        carry = "c" if j != columns[0] else ""
        block(f"mad{carry}.lo.cc.u32", words[i + j], a[i], a[j], low)
        block("madc.hi.cc.u32", words[i + j + 1], a[i], a[j], high)
    # the product of the last column fits, unless something lay at its upper word already
    if columns and high != "0":
        top = i + columns[-1] + 2
        words[top] = block.word()
        block("addc.u32", words[top], "0", "0")


def _zeros(n: int) -> list[str]:
    return ["0"] * n


def _odd_words(a: Words) -> list[str]:
    """a_1, a_3, ... at even places; what stands between is not read."""
    return [*a[1:], a[0]]


def _shifted(words: Words) -> list[str]:
    return [*words[2:], "0", "0"]


def _merged(block: Block, even: Words, odd: Words) -> list[str]:
    """even + odd / 2^32, where the lowest word of odd has been cleared."""
    out = block.words(len(even))
    add(block, out, even, [*odd[1:], "0"])
    return out


def _finish(block: Block, out: Words, total: Words, field: PrimeField, lazy: bool) -> None:
    if lazy:
        for word, value in zip(out, total, strict=True):
            block("mov.u32", word, value)
    else:
        reduce_once(block, out, total, immediates(field.modulus, len(out)))
