"""32-bit words of Booleans, least significant first. Source: spec/gadgets.md section 3."""

from __future__ import annotations

from collections.abc import Sequence

from torchzk.circuits.gadgets.boolean import Boolean, alloc_bits, lc
from torchzk.circuits.gadgets.multipack import CAPACITY, packed
from torchzk.circuits.recorder import ONE, ConstraintSystem, Lc, Variable, add_scaled
from torchzk.params.sha256 import WORD_BITS

Word = list[Boolean]
MASK = (1 << WORD_BITS) - 1


def constant(value: int) -> Word:
    """The word of a known value."""
    return [bool(value >> i & 1) for i in range(WORD_BITS)]


def words_from_bits(bits: Sequence[Boolean]) -> list[Word]:
    """Words of big-endian bits: the first of 32 bits is the most significant."""
    return [list(bits[i : i + WORD_BITS][::-1]) for i in range(0, len(bits), WORD_BITS)]


def rotr(word: Word, n: int) -> Word:
    """Rotated right by n; costs nothing."""
    return word[n:] + word[:n]


def shr(word: Word, n: int) -> Word:
    """Shifted right by n; costs nothing."""
    return word[n:] + [False] * n


class MultiEq:
    """Gathers equalities of small numbers and enforces several in one constraint."""

    def __init__(self, cs: ConstraintSystem) -> None:
        self._cs = cs
        self._used = 0
        self._left: dict[Variable, int] = {}
        self._right: dict[Variable, int] = {}

    def equal(self, n_bits: int, left: Lc, right: Lc) -> None:
        """left = right, both below 2^n_bits."""
        if self._used + n_bits >= CAPACITY:
            self.flush()
        add_scaled(self._left, left, 1 << self._used)
        add_scaled(self._right, right, 1 << self._used)
        self._used += n_bits

    def flush(self) -> None:
        """Enforce what was gathered since the last flush."""
        if self._used:
            self._cs.enforce(self._left, {ONE: 1}, self._right)
        self._used, self._left, self._right = 0, {}, {}


def add_many(cs: ConstraintSystem, equalities: MultiEq, operands: Sequence[Word]) -> Word:
    """The sum of words modulo 2^32.

    Allocates every bit of the full sum, as many as a sum of so many words may have; nothing if
    all words are constant. The equality goes to `equalities`.
    """
    total: dict[Variable, int] = {}
    for word in operands:
        for i, bit in enumerate(word):
            add_scaled(total, lc(bit), 1 << i)
    if all(isinstance(bit, bool) for word in operands for bit in word):
        return constant(total.get(ONE, 0) & MASK)
    n_bits = (len(operands) * MASK).bit_length()
    bits = alloc_bits(cs, n_bits)
    equalities.equal(n_bits, total, packed(bits))
    return bits[:WORD_BITS]
