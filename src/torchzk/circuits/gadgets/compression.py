"""The compression function of SHA-256: one program, recorded as constraints or run on values.

Which variables a compression allocates depends on which of its input bits are constant. Recording
notes, for each variable, in which word of the run on values its bit stands, so that the witness
is a program on whole words and one gather. Source: spec/gadgets.md section 4; FIPS 180-4, 6.2.2.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol, TypeVar

import torch

from torchzk.circuits.gadgets import boolean, uint32
from torchzk.circuits.gadgets.boolean import Bit, Boolean
from torchzk.circuits.gadgets.uint32 import MASK, WORD_BITS, MultiEq, Word
from torchzk.circuits.recorder import ConstraintSystem, Template, Variable
from torchzk.params.sha256 import K

W = TypeVar("W")
BLOCK_BITS = 512
STATE_BITS = 256
N_STEPS = 822
"""Words of a run on values: 5 for each of 48 words of the schedule, 7 for each of 64 rounds and
2 sums for all rounds but the first, and 8 sums at the end."""


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
        The new state, and the recording, whose values `Compression` and `compress_wires` give.
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


def compress_wires(
    recorded: Compression, block: torch.Tensor, state: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """The values of one compression, for a batch.

    Args:
        recorded: What `compress` returned for this compression.
        block: Words, int64 `[16, *batch]`.
        state: Words, int64 `[8, *batch]`.

    Returns:
        The allocated bits in order, bool `[n_aux, *batch]`, and the new state, int64 `[8, *batch]`.
    """
    run, out = compression_steps(block, state)
    column = (-1, *[1] * (block.ndim - 1))
    step, bit, flipped = (
        x.to(block.device) for x in (recorded.step, recorded.bit, recorded.flipped)
    )
    bits = (run.index_select(0, step) >> bit.view(column) & 1) ^ flipped.view(column)
    return bits.bool(), out


def compression_steps(
    block: torch.Tensor, state: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """The words that a compression computes, for a batch.

    Args:
        block: Words, int64 `[16, *batch]`.
        state: Words, int64 `[8, *batch]`.

    Returns:
        The result of every step, int64 `[N_STEPS, *batch]`, sums in full; and the new state,
        int64 `[8, *batch]`.
    """
    run = _Values()
    out = _program(run, block.unbind(0), state.unbind(0))
    return torch.stack(run.words), torch.stack(out)


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
    out = _program(run, words, state)
    run.equalities.flush()
    sources = torch.tensor(run.sources, dtype=torch.int64).reshape(-1, 3)
    return Compression(
        cs.template(n_formal), tuple(bit for word in out for bit in word), *sources.unbind(1)
    )


class _Machine(Protocol[W]):
    """Operations on words. `_program` calls each in a fixed order, which numbers the steps."""

    def constant(self, value: int) -> W: ...
    def rotr(self, word: W, n: int) -> W: ...
    def shr(self, word: W, n: int) -> W: ...
    def xor(self, a: W, b: W) -> W: ...
    def choice(self, a: W, b: W, c: W) -> W: ...
    def majority(self, a: W, b: W, c: W) -> W: ...
    def add(self, words: Sequence[W]) -> W: ...


def _program(m: _Machine[W], block: Sequence[W], state: Sequence[W]) -> list[W]:
    def mixed(word: W, first: int, second: int, third: W) -> W:
        return m.xor(m.xor(m.rotr(word, first), m.rotr(word, second)), third)

    def value(terms: list[W]) -> W:
        """The sums of a and e are made when they are needed, with what was added meanwhile."""
        return terms[0] if len(terms) == 1 else m.add(terms)

    schedule = list(block)
    for i in range(16, 64):
        early, late = schedule[i - 15], schedule[i - 2]
        s0 = mixed(early, 7, 18, m.shr(early, 3))
        s1 = mixed(late, 17, 19, m.shr(late, 10))
        schedule.append(m.add([schedule[i - 16], s0, schedule[i - 7], s1]))
    _, b, c, d, _, f, g, h = state
    a_terms, e_terms = [state[0]], [state[4]]
    for k, word in zip(K, schedule, strict=True):
        e = value(e_terms)
        s1 = mixed(e, 6, 11, m.rotr(e, 25))
        common = [h, s1, m.choice(e, f, g), m.constant(k), word]
        a = value(a_terms)
        s0 = mixed(a, 2, 13, m.rotr(a, 22))
        a_terms, e_terms = [*common, s0, m.majority(a, b, c)], [*common, d]
        b, c, d, f, g, h = a, b, c, e, f, g
    sums = [a_terms, [b], [c], [d], e_terms, [f], [g], [h]]
    return [m.add([*terms, old]) for terms, old in zip(sums, state, strict=True)]


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


class _Values:
    """Words as int64 tensors `[*batch]`. `words` has the result of every step."""

    def __init__(self) -> None:
        self.words: list[torch.Tensor] = []

    def constant(self, value: int) -> torch.Tensor:
        return torch.tensor(value)

    def rotr(self, word: torch.Tensor, n: int) -> torch.Tensor:
        return word >> n | word << WORD_BITS - n & MASK

    def shr(self, word: torch.Tensor, n: int) -> torch.Tensor:
        return word >> n

    def xor(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return self._note(a ^ b)

    def choice(self, a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
        return self._note(a & b | ~a & c)

    def majority(self, a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
        out = self._note(a & b | a & c | b & c)
        self._note(b & c)
        return out

    def add(self, words: Sequence[torch.Tensor]) -> torch.Tensor:
        total = words[0]
        for word in words[1:]:
            total = total + word
        return self._note(total) & MASK

    def _note(self, word: torch.Tensor) -> torch.Tensor:
        self.words.append(word)
        return word
