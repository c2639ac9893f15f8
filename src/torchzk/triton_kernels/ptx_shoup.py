"""Products by known constants, and butterflies around them, in inline PTX, for Fr.

A constant w travels with its quotient w' = floor(w R / p), R = 2^256. For any v below R let
q = floor(w' v / R), or a little less; then r = w v - q p lies in [0, p + p v / R + p / 2^28): so
r is below 2p whenever v is below 2.1 p, and fits eight words whatever v is. Only the upper half of
w' v and the lower halves of w v and q p are needed, which is a fifth less than a Montgomery
product. Of w' v, products that end below word 7 are left out: they are worth less than 2^-28 of q.

Between butterflies values are not canonical. *Near* means below p + 2^-25 p. Subtracting p where
the top word exceeds that of p makes a value below 2p near, in place and without selects: it takes
nine instructions where an exact reduction takes seventeen. See `butterflies` for the bounds.

Source: V. Shoup's NTL (MulModPrecon); D. Harvey, Faster arithmetic for number-theoretic
transforms, J. Symb. Comp. 60 (2014).
"""

from __future__ import annotations

from torchzk.params.fields import PrimeField
from torchzk.triton_kernels import ptx
from torchzk.triton_kernels.ptx import Block, Words

Sums = dict[int, str]
"""Registers of a running sum, by the place of the word."""


def mul(block: Block, out: Words, v: Words, w: Words, quotient: Words, field: PrimeField) -> None:
    """out = w v mod p, not reduced (see above)."""
    n = len(out)
    q = _upper_half(block, v, quotient)
    # w v + q (R - p), where R - p = 2^32 - 1 mod 2^64: its two lowest words need no products
    even: Sums = {}
    odd: Sums = {}
    minus_p = ptx.immediates((1 << 32 * n) - field.modulus, n)
    _lower_row(block, even, {}, v[0], w, 0, 0)
    _lower_row(block, odd, {i + 1: q[i] for i in range(n - 1)}, v[0], w, 0, 1)
    for i in range(1, n):
        for sums, parity in ((even, 0), (odd, 1)):
            _lower_row(block, sums, sums, v[i], w, i, parity)
    for i in range(n):
        for sums, parity in ((even, 0), (odd, 1)):
            _lower_row(block, sums, sums, q[i], minus_p, i, parity, first=2)
    total = block.words(n)
    block("mov.u32", total[0], even[0])
    ptx.add(block, total[1:], [even[k] for k in range(1, n)], [odd[k] for k in range(1, n)])
    for k in range(n):
        op = "sub.cc" if k == 0 else "subc.cc" if k < n - 1 else "subc"
        block(f"{op}.u32", out[k], total[k], q[k])


def low_product(block: Block, out: Words, a: Words, b: Words) -> None:
    """out = a b mod R."""
    n = len(out)
    even: Sums = {}
    odd: Sums = {}
    for i in range(n):
        for sums, parity in ((even, 0), (odd, 1)):
            _lower_row(block, sums, sums, a[i], b, i, parity)
    block("mov.u32", out[0], even[0])
    ptx.add(block, out[1:], [even[k] for k in range(1, n)], [odd[k] for k in range(1, n)])


def has_cheap_words(field: PrimeField) -> bool:
    """What `mul` takes for granted: p = 1 - 2^32 mod 2^64, and eight words."""
    return field.n_limbs == 8 and field.modulus % (1 << 64) == (1 - (1 << 32)) % (1 << 64)


def near(block: Block, a: Words, field: PrimeField) -> list[str]:
    """A near copy of a, which is below 2p."""
    out = block.words(len(a))
    for word, source in zip(out, a, strict=True):
        block("mov.u32", word, source)
    p = ptx.immediates(field.modulus, len(a))
    above = block.predicate()
    block("setp.gt.u32", above, out[-1], p[-1])
    _when(block, above, "sub", out, p)
    return out


def minus(block: Block, out: Words, a: Words, b: Words, field: PrimeField) -> None:
    """out = a - b, plus 2p if negative: in [0, 2p) for near a and b."""
    difference = block.words(len(out))
    borrow, below = ptx.sub(block, difference, a, b), block.predicate()
    block("setp.ne.u32", below, borrow, "0")
    _when(block, below, "add", difference, ptx.immediates(2 * field.modulus, len(out)))
    for word, value in zip(out, difference, strict=True):
        block("mov.u32", word, value)


def canonical(block: Block, out: Words, a: Words, field: PrimeField) -> None:
    """out = a mod p in [0, p), for a below 2p or a little more."""
    ptx.reduce_once(block, out, near(block, a, field), ptx.immediates(field.modulus, len(a)))


def forth(block: Block, words: Words, field: PrimeField, trivial: bool) -> None:
    """u + v and (u - v) w for near u, v: both near. Operands: results, u, v, w, w'."""
    n = field.n_limbs
    x, y, u, v, *constant = _parts(words, n)
    total, difference = block.words(n), block.words(n)
    minus(block, difference, u, v, field)
    ptx.add(block, total, u, v)
    _move(block, x, near(block, total, field))
    if not trivial:
        product = block.words(n)
        mul(block, product, difference, constant[0], constant[1], field)
        difference = product
    _move(block, y, near(block, difference, field))


def back(block: Block, words: Words, field: PrimeField, trivial: bool) -> None:
    """u + v w and u - v w for u, v below 2p: both below 2p. Operands: results, u, v, w, w'."""
    n = field.n_limbs
    x, y, u, v, *constant = _parts(words, n)
    product: Words = v
    if not trivial:
        product = block.words(n)
        mul(block, product, v, constant[0], constant[1], field)
    product, start = near(block, product, field), near(block, u, field)
    ptx.add(block, x, start, product)
    minus(block, y, start, product, field)


def _parts(words: Words, n: int) -> list[Words]:
    return [words[i : i + n] for i in range(0, len(words), n)]


def _move(block: Block, out: Words, a: Words) -> None:
    for word, value in zip(out, a, strict=True):
        block("mov.u32", word, value)


def _when(block: Block, predicate: str, name: str, a: Words, b: Words) -> None:
    """a = a + b or a - b in place, in the lanes where the predicate holds."""
    last = len(a) - 1
    for i in range(last + 1):
        op = f"{name}.cc" if i == 0 else f"{name}c.cc" if i < last else f"{name}c"
        block(f"@{predicate} {op}.u32", a[i], a[i], b[i])


def _upper_half(block: Block, v: Words, quotient: Words) -> list[str]:
    """The words of v w' from the n-th, without the carries of what lies below word n - 2."""
    n = len(v)
    even: Sums = {}
    odd: Sums = {}
    for i in range(n):
        for sums, parity in ((even, 0), (odd, 1)):
            columns = [c for c in range(n - 2, n + i) if c % 2 == parity and c >= i]
            _chain(block, sums, sums, v[i], [(c, quotient[c - i]) for c in columns])
            top = columns[-1] + 2
            # a sum that grew by a word has no carry yet
            if top not in sums and i >= 1 and columns[-1] == n - 2 + i:
                sums[top] = block.word()
                block("addc.u32", sums[top], "0", "0")
    q = block.words(n)
    # only the carry is of use
    block("add.cc.u32", block.word(), even[n - 1], odd[n - 1])
    for k in range(n):
        op = "addc.cc" if k < n - 1 else "addc"
        block(f"{op}.u32", q[k], even.get(n + k, "0"), odd.get(n + k, "0"))
    return q


def _chain(block: Block, sums: Sums, addends: Sums, x: str, terms: list[tuple[int, str]]) -> None:
    """sums = addends + x y at place c for each (c, y), two apart; the carry stays in the flag."""
    for k, (c, y) in enumerate(terms):
        low, high = addends.get(c, "0"), addends.get(c + 1, "0")
        for place in (c, c + 1):
            if place not in sums:
                sums[place] = block.word()
        block(f"mad{'c' if k else ''}.lo.cc.u32", sums[c], x, y, low)
        block("madc.hi.cc.u32", sums[c + 1], x, y, high)


def _lower_row(
    block: Block,
    sums: Sums,
    addends: Sums,
    x: str,
    y: Words,
    i: int,
    parity: int,
    first: int = 0,
) -> None:
    """Add x y_j at place i + j for j from `first`, in places of one parity below n."""
    n = len(y)
    columns = [c for c in range(i + first, n) if c % 2 == parity]
    # n is even, so the last place is odd and takes the lower word of its product alone
    whole = [(c, y[c - i]) for c in columns if c < n - 1]
    _chain(block, sums, addends, x, whole)
    if columns and columns[-1] == n - 1:
        last = n - 1
        low = addends.get(last, "0")
        if last not in sums:
            sums[last] = block.word()
        block(f"mad{'c' if whole else ''}.lo.u32", sums[last], x, y[last - i], low)
