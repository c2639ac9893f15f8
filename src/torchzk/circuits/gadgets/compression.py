"""The compression function of SHA-256: one program, recorded as constraints or run on values.

Which variables a compression allocates depends on which of its input bits are constant. Recording
notes, for each variable, in which word of the run on values its bit stands, so that the witness
is a program on whole words and one gather. Source: spec/gadgets.md section 4; FIPS 180-4, 6.2.2.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import torch

from torchzk.circuits.gadgets import boolean, uint32
from torchzk.circuits.gadgets.boolean import Bit, Boolean
from torchzk.circuits.gadgets.uint32 import MultiEq, Word
from torchzk.circuits.recorder import ConstraintSystem, Template, Variable
from torchzk.params import sha256_steps
from torchzk.params.sha256 import WORD_BITS

BLOCK_BITS = 512
STATE_BITS = 256


@dataclass(frozen=True, eq=False)
class Compression:
    """One compression for one pattern of constants, recorded."""

    template: Template
    output: tuple[Boolean, ...]
    """The new state, words least significant bit first, over the template's variables."""
    step: torch.Tensor
    """int64 `[n_aux]`: the word of the run on values that holds the variable."""
    bit: torch.Tensor
    """int64 `[n_aux]`: the bit of that word."""
    flipped: torch.Tensor
    """int64 `[n_aux]`: 1 where the variable is the negation of that bit."""

    def new_state(self, given: Sequence[Variable], first: Variable) -> list[Word]:
        """`output` over the variables given, and those allocated from `first` on."""
        variables = [*given, *range(first, first + self.template.n_aux)]
        out: list[Boolean] = [
            bit if isinstance(bit, bool) else Bit(variables[bit.variable], bit.negated)
            for bit in self.output
        ]
        return [out[i : i + WORD_BITS] for i in range(0, STATE_BITS, WORD_BITS)]


def compress(
    cs: ConstraintSystem, block: Sequence[Boolean], state: Sequence[Word]
) -> tuple[list[Word], Compression]:
    """Constrain one compression.

    Args:
        cs: Takes the constraints.
        block: 512 bits, each word most significant bit first.
        state: 8 words.

    Returns:
        The new state, and the recording.
    """
    recorded, given = recognise(block, state)
    first = cs.splice(recorded.template, given)
    return recorded.new_state(given, first), recorded


def recognise(
    block: Sequence[Boolean], state: Sequence[Word]
) -> tuple[Compression, list[Variable]]:
    """The recording for the constants among `block` and `state`, and the variables it is over.

    Bits that are the same variable count as one: `given` is distinct.
    """
    bits = [*block, *(bit for word in state for bit in word)]
    given: dict[Variable, int] = {}
    pattern = tuple(
        bit
        if isinstance(bit, bool)
        else Bit(given.setdefault(bit.variable, len(given)), bit.negated)
        for bit in bits
    )
    return _recorded(pattern), list(given)


@lru_cache(maxsize=64)
def _recorded(pattern: tuple[Boolean, ...]) -> Compression:
    """The compression of constants and of formal variables 0, 1, ..., numbered as they occur."""
    n_formal = len({bit.variable for bit in pattern if isinstance(bit, Bit)})
    cs = ConstraintSystem()
    cs.alloc_many(n_formal)
    words = uint32.words_from_bits(pattern[:BLOCK_BITS])
    rest = pattern[BLOCK_BITS:]
    state = [list(rest[i : i + WORD_BITS]) for i in range(0, STATE_BITS, WORD_BITS)]
    run = _Recording(cs)
    out = sha256_steps.run(run, words, state)
    run.equalities.flush()
    sources = torch.tensor(run.sources, dtype=torch.int64).reshape(-1, 3)
    return Compression(
        cs.template(n_formal), tuple(bit for word in out for bit in word), *sources.unbind(1)
    )


class _Recording:
    """Words of Booleans. `sources` has a (step, bit, flipped) for each variable allocated."""

    def __init__(self, cs: ConstraintSystem) -> None:
        self._cs = cs
        self._step = 0
        self.equalities = MultiEq(cs)
        self.sources: list[tuple[int, int, int]] = []

    def constant(self, value: int) -> Word:
        return uint32.constant(value)

    def rotr(self, word: Word, n: int) -> Word:
        return uint32.rotr(word, n)

    def shr(self, word: Word, n: int) -> Word:
        return uint32.shr(word, n)

    def xor(self, a: Word, b: Word) -> Word:
        return self._bitwise(boolean.xor, a, b)

    def choice(self, a: Word, b: Word, c: Word) -> Word:
        return self._bitwise(boolean.choice, a, b, c)

    def majority(self, a: Word, b: Word, c: Word) -> Word:
        out = self._bitwise(boolean.majority, a, b, c)
        # the conjunction that some bits need is a word of its own
        self._step += 1
        return out

    def add(self, words: Sequence[Word]) -> Word:
        before = self._cs.n_aux
        out = uint32.add_many(self._cs, self.equalities, words)
        self.sources += [(self._step, i, 0) for i in range(self._cs.n_aux - before)]
        self._step += 1
        return out

    def _bitwise(self, operation: Callable[..., Boolean], *words: Word) -> Word:
        out = []
        for i, operands in enumerate(zip(*words, strict=True)):
            before = self._cs.n_aux
            bit = operation(self._cs, *operands)
            out.append(bit)
            new = self._cs.n_aux - before
            if new and isinstance(bit, Bit):
                self.sources.append((self._step, i, int(bit.negated)))
            if new == 2:
                self.sources.append((self._step + 1, i, 0))
        self._step += 1
        return out
