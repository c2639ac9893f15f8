"""Exact modular arithmetic on float64 words: how the reference ops compute.

An element is `W` signed words of 24 bits, value = sum w_i 2^(24 i), held as integers in float64,
`[W, n]`. Sums of products stay below 2^53, so every operation is exact, and the reduction is one
matrix product with the residues 2^(24 k) R^-1 mod p, which BLAS does at full speed. Kernels reduce
word by word instead: that the two agree is evidence.

A value is only known modulo p and words may be a little larger than 24 bits. Call an element
normal when its words are at most 2^23 + 2^7 in size and its value within 0.6 p; `from_limbs`,
`mul` and `reduce` return such. Sums and differences are plain + and -. The product of sums of
i and of j normal elements is exact while i * j <= 7 (i * j <= 3 in `mul_ext` at degree 2).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import torch

from torchzk.params.fields import PrimeField

WORD_BITS = 24
_WORD = float(1 << WORD_BITS)


def n_words(field: PrimeField) -> int:
    """W: words of an element; R = 2^(32 L) fits in them."""
    return -(-32 * field.n_limbs // WORD_BITS)


def _centred(value: int, n: int) -> list[int]:
    """`value` as n little-endian words in [-2^23, 2^23); the last word takes what is left."""
    words = []
    for _ in range(n - 1):
        low = (value + (1 << WORD_BITS - 1)) % (1 << WORD_BITS) - (1 << WORD_BITS - 1)
        words.append(low)
        value = (value - low) >> WORD_BITS
    return [*words, value]


@dataclass(frozen=True)
class _Constants:
    reduction: torch.Tensor
    """`[W + 1, 2 W]`: column k is 2^(24 k) R^-1 mod p in words, and below it, over p."""
    weights: torch.Tensor
    """`[1, W]`: 2^(24 k) / p, to estimate how often p fits."""
    modulus: torch.Tensor
    """`[W, 1]`"""


@lru_cache(maxsize=16)
def _constants(field: PrimeField, device: torch.device) -> _Constants:
    p, w = field.modulus, n_words(field)
    residues = [pow(2, WORD_BITS * k, p) * field.r_inv % p for k in range(2 * w)]
    columns = [[*_centred(c, w), c / p] for c in residues]
    weights = [2.0 ** (WORD_BITS * k) / p for k in range(w)]

    def column(words: Sequence[float]) -> torch.Tensor:
        return torch.tensor(words, dtype=torch.float64, device=device).unsqueeze(1)

    return _Constants(
        reduction=torch.cat([column(c) for c in columns], dim=1),
        weights=column(weights).t(),
        modulus=column(_centred(p, w)),
    )


def constant(value: int, field: PrimeField, device: torch.device) -> torch.Tensor:
    """The integer `value` in [0, p), as given, as an element `[W, 1]`."""
    words = _centred(value, n_words(field))
    return torch.tensor(words, dtype=torch.float64, device=device).unsqueeze(1)


def from_limbs(x: torch.Tensor, field: PrimeField) -> torch.Tensor:
    """Limbs int32 `[L, n]` to a normal element `[W, n]` of the same value."""
    limbs = x.to(torch.int64) & 0xFFFFFFFF
    pad = -limbs.shape[0] % 3
    if pad:
        limbs = torch.cat((limbs, limbs.new_zeros(pad, *limbs.shape[1:])))
    a, b, c = limbs[0::3], limbs[1::3], limbs[2::3]
    mask = (1 << WORD_BITS) - 1
    words = torch.stack(
        (a & mask, (a >> 24 | b << 8) & mask, (b >> 16 | c << 16) & mask, c >> 8), 1
    )
    w = n_words(field)
    return _carry(words.flatten(0, 1)[:w].to(torch.float64), 1)


def to_limbs(a: torch.Tensor, field: PrimeField) -> torch.Tensor:
    """An element `[W, n]` with words below 2^40 in size to limbs int32 `[L, n]`, in [0, p)."""
    const = _constants(field, a.device)
    normal = reduce(a, field)
    # the highest word that is not 0 outweighs the rest, so even a rounded sum has the right sign
    negative = torch.matmul(const.weights, normal) < 0
    words = _borrow((normal + torch.where(negative, const.modulus, 0.0)).to(torch.int64))
    pad = -words.shape[0] % 4
    if pad:
        words = torch.cat((words, words.new_zeros(pad, *words.shape[1:])))
    a0, a1, a2, a3 = words[0::4], words[1::4], words[2::4], words[3::4]
    limbs = torch.stack((a0 | a1 << 24, a1 >> 8 | a2 << 16, a2 >> 16 | a3 << 8), 1)
    return limbs.flatten(0, 1)[: field.n_limbs].to(torch.int32)


def _borrow(words: torch.Tensor) -> torch.Tensor:
    """Carry through int64 words in place, all but the top one into [0, 2^24)."""
    for i in range(words.shape[0] - 1):
        words[i + 1] += words[i] >> WORD_BITS
        words[i] &= (1 << WORD_BITS) - 1
    return words


def _carry(t: torch.Tensor, passes: int) -> torch.Tensor:
    """Move what exceeds 24 bits one word up, in place, all words at once."""
    for _ in range(passes):
        high = (t[:-1] * (1 / _WORD)).round_()
        t[:-1].sub_(high, alpha=_WORD)
        t[1:].add_(high)
    return t


def reduce(a: torch.Tensor, field: PrimeField) -> torch.Tensor:
    """A normal element equal to `a` modulo p; words of `a` stay below 2^40 in size."""
    const = _constants(field, a.device)
    times = torch.matmul(const.weights, a).round_()
    t = torch.addcmul(a, const.modulus, times, value=-1)
    return _carry(t, 2)


def linear_columns(a: torch.Tensor, field: PrimeField) -> torch.Tensor:
    """What `linear` multiplies by: for normal elements `[W, n]`, `[W + 1, W, n]`.

    Column k holds a 2^(24 k) mod p in words, and below them that value over p.
    """
    shifts = [pow(2, WORD_BITS * k + 32 * field.n_limbs, field.modulus) for k in range(a.shape[0])]
    words = torch.stack([mul(a, constant(s, field, a.device), field) for s in shifts], dim=1)
    over_p = torch.matmul(_constants(field, a.device).weights, words.flatten(1))
    return torch.cat((words, over_p.view(1, *words.shape[1:])))


def linear(columns: torch.Tensor, a: torch.Tensor, field: PrimeField) -> torch.Tensor:
    """Normal sums, over lanes, of fixed elements times the normal elements `a` `[W, lanes, n]`.

    Args:
        columns: `[W + 1, m, W, lanes]`, the `linear_columns` of m by lanes fixed elements.
        a: The elements that vary; their form is kept. Exact while W * lanes <= 121.

    Returns:
        `[W, m, n]`.
    """
    w, lanes, n = a.shape
    m = columns.shape[1]
    folded = columns.reshape((w + 1) * m, w * lanes) @ a.reshape(w * lanes, n)
    folded = folded.view(w + 1, m * n)
    # carried before the multiples of p are taken off, since both may come near 2^53
    words = _carry(folded[:w], 2)
    words.addcmul_(_constants(field, a.device).modulus, folded[w].round_(), value=-1)
    return _carry(words, 2).view(w, m, n)


def mul(a: torch.Tensor, b: torch.Tensor, field: PrimeField) -> torch.Tensor:
    """Montgomery product a b R^-1 of elements `[W, n]`; either may be `[W, 1]`."""
    return _reduce_product(_product(a, b), field)


def mul_ext(a: torch.Tensor, b: torch.Tensor, field: PrimeField) -> torch.Tensor:
    """Montgomery product of coordinates `[d, W, n]`: Fp for d = 1, Fp[u]/(u^2 + 1) for d = 2."""
    if a.shape[0] == 1:
        return mul(a[0], b[0], field).unsqueeze(0)
    real = _product(a[0], b[0]).sub_(_product(a[1], b[1]))
    imaginary = _product(a[0], b[1]).add_(_product(a[1], b[0]))
    return torch.stack((_reduce_product(real, field), _reduce_product(imaginary, field)))


def sqr_ext(a: torch.Tensor, field: PrimeField) -> torch.Tensor:
    """Montgomery square of coordinates `[d, W, n]` that are normal."""
    if a.shape[0] == 1:
        return mul(a[0], a[0], field).unsqueeze(0)
    real = mul(a[0] + a[1], a[0] - a[1], field)
    return torch.stack((real, mul(a[0] + a[0], a[1], field)))


def norm(a: torch.Tensor, field: PrimeField) -> torch.Tensor:
    """(c0^2 + c1^2) R^-1 of coordinates `[2, W, n]` that are normal."""
    return _reduce_product(_product(a[0], a[0]).add_(_product(a[1], a[1])), field)


def is_zero(a: torch.Tensor, field: PrimeField) -> torch.Tensor:
    """Which of the normal elements `[*batch, W, n]` are zero: bool `[*batch, n]`.

    The value is within 0.6 p, so it is zero modulo p only if it is zero. The highest word that is
    not zero outweighs the rest, so even a rounded sum is zero for zero alone.
    """
    return torch.matmul(_constants(field, a.device).weights, a).squeeze(-2) == 0


def _product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Schoolbook product: `[2 W, n]` columns, not carried."""
    if b.shape[1] == 1:
        a, b = b, a
    w, n = b.shape[0], b.shape[1]
    t = torch.zeros(2 * w, n, dtype=torch.float64, device=b.device)
    for i in range(w):
        t[i : i + w].addcmul_(a[i : i + 1], b)
    return t


def _reduce_product(t: torch.Tensor, field: PrimeField) -> torch.Tensor:
    """Columns `[2 W, n]` up to 2^53 in size, which are used up, to a normal element over R."""
    const = _constants(field, t.device)
    w = t.shape[0] // 2
    folded = const.reduction @ _carry(t, 2)
    out = folded[:w]
    out.addcmul_(const.modulus, folded[w].round_(), value=-1)
    return _carry(out, 2)
