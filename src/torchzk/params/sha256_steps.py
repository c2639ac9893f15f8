"""The steps of one compression of SHA-256, in the order that numbers them, on any kind of word.

Run on Booleans the program is a circuit, run on values the witness; that both number the steps
alike is what ties a variable to its value. Source: spec/gadgets.md section 4; FIPS 180-4, 6.2.2.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

from torchzk.params.sha256 import K

W = TypeVar("W")

# 48 words of the schedule take 5 steps each, the first round 7, others 9, the new state 8
N_STEPS = 48 * 5 + 7 + 63 * 9 + 8
"""Words of a run: each exclusive or, choice and sum one, each majority two."""


class Machine(Protocol[W]):
    """Operations on words. `run` calls each in a fixed order, which numbers the steps.

    Rotations, shifts and constants are no steps. The two of a majority of a, b, c are the majority
    and b & c.
    """

    def constant(self, value: int) -> W: ...
    def rotr(self, word: W, n: int) -> W: ...
    def shr(self, word: W, n: int) -> W: ...
    def xor(self, a: W, b: W) -> W: ...
    def choice(self, a: W, b: W, c: W) -> W: ...
    def majority(self, a: W, b: W, c: W) -> W: ...
    def add(self, words: Sequence[W]) -> W: ...


def run(m: Machine[W], block: Sequence[W], state: Sequence[W]) -> list[W]:
    """The new state of 8 words, of a block of 16 words and a state of 8."""

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
