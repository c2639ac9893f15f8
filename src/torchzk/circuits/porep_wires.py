"""Where the variables of a PoRep challenge stand, and from which bit each of the bits is copied.

Nearly all of a challenge's variables are bits: of compressions, of numbers, of a path. All words
that have such bits make up a challenge's bank, and a table over the block says which of them, so
that the bits of a whole partition are one gather. Source: spec/porep.md section 11.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from torchzk.circuits.gadgets.boolean import Bit
from torchzk.circuits.gadgets.compression import Compression
from torchzk.circuits.gadgets.num import N_BITS
from torchzk.circuits.gadgets.pair_wires import n_pair_wires
from torchzk.circuits.gadgets.por import level_wires
from torchzk.circuits.gadgets.sha256 import chain
from torchzk.circuits.labels import parent_rows
from torchzk.circuits.porep import NODE_BITS, label_message
from torchzk.circuits.porep_shapes import PARENTS, StackedShape
from torchzk.groth16.r1cs import Array
from torchzk.params.fields import FR, LIMB_BITS
from torchzk.params.poseidon import Poseidon
from torchzk.params.sha256_steps import N_STEPS

LABEL_BLOCKS = 20
"""Blocks of the hash that a label is."""
WORDS_A_STEP = 2
"""A step is 64 bits: sums are kept in full."""
_COMPRESSION = N_STEPS * WORDS_A_STEP


@dataclass(frozen=True)
class Bank:
    """Offsets of int32 words in the bank of one challenge."""

    layers: int
    data_levels: int

    @property
    def node(self) -> int:
        """2 words: the challenged node."""
        return 0

    @property
    def data_indices(self) -> int:
        """`[data_levels]`: the place of the child in each level of TreeD, 0 or 1."""
        return 2

    @property
    def rows(self) -> int:
        """`[14, layers, 8]`: the parents' columns in canonical form."""
        return self.data_indices + self.data_levels

    @property
    def steps(self) -> int:
        """`[20, layers, N_STEPS, 2]`: of the compressions of labels."""
        end = self.rows + PARENTS * self.layers * FR.n_limbs
        return end + end % WORDS_A_STEP

    @property
    def compressions(self) -> int:
        return LABEL_BLOCKS * self.layers

    @property
    def n_words(self) -> int:
        return self.steps + self.compressions * _COMPRESSION

    def label_steps(self, layer: int) -> list[int]:
        """The first word of the steps of each block of a label, `layer` counted from 1."""
        return [
            self.steps + (block * self.layers + layer - 1) * _COMPRESSION
            for block in range(LABEL_BLOCKS)
        ]


@dataclass(frozen=True, eq=False)
class BitTable:
    """For every aux variable of a block the bit it is a copy of; any bit where it is a number."""

    word: Array
    """int32 `[n_aux]`: in the bank."""
    lift: Array
    """int8 `[n_aux]`: how far the bit is below the word's top, in [0, 32)."""
    flip: Array
    """int8 `[n_aux]`: -1 where the variable is the negation of the bit, else 0."""


@dataclass(frozen=True, eq=False)
class ChallengeWires:
    """The numbers among a block's own aux variables, by place, and the table of its bits."""

    bank: Bank
    bits: BitTable
    data_leaf: int
    data_levels: int
    """Where the levels of TreeD begin."""
    data_stride: int
    """Variables a level: index bit, sibling, two children, bits of both, compressions, node."""
    columns: int
    """Where the parents begin."""
    column_stride: int
    """Variables a parent: rows, wires of the column's hash, wires of the path."""
    labels: tuple[int, ...]
    """The label of each layer."""
    replica_node: int
    replica_path: int
    column_hash: int
    """Where the wires of the own column's hash begin; those of its path follow."""
    n_column_hash: int
    n_aux: int


def challenge_wires(shape: StackedShape) -> ChallengeWires:
    """The wires of one challenge."""
    return _challenge_wires(shape.layers, shape.data_levels, shape.arities)


@lru_cache(maxsize=4)
def _challenge_wires(layers: int, data_levels: int, arities: tuple[int, ...]) -> ChallengeWires:
    bank = Bank(layers, data_levels)
    out = _Writer()
    n_column_hash = Poseidon.merkle(layers).n_wires
    n_path = sum(level_wires(arity) for arity in arities)
    column_stride = layers + n_column_hash + n_path
    data_leaf = out.numbers(1)
    first_level = out.n
    for level in range(data_levels):
        out.bits([bank.data_indices + level], [0])
        # sibling, children, and the hash of those
        out.numbers(3 + n_pair_wires())
    data_stride = (out.n - first_level) // data_levels
    columns = out.numbers(PARENTS * column_stride)
    out.bits_of(bank.node, NODE_BITS)
    labels = []
    for layer in range(1, layers + 1):
        rows = parent_rows(layer)
        for column, row in rows:
            out.bits_of(bank.rows + (column * layers + row) * FR.n_limbs, N_BITS)
        out.compressions(bank.label_steps(layer), _label_chain(layer, len(rows)))
        labels.append(out.numbers(1))
    return ChallengeWires(
        bank=bank,
        data_leaf=data_leaf,
        data_levels=first_level,
        data_stride=data_stride,
        columns=columns,
        column_stride=column_stride,
        labels=tuple(labels),
        replica_node=out.numbers(1),
        replica_path=out.numbers(n_path),
        column_hash=out.numbers(n_column_hash + n_path),
        n_column_hash=n_column_hash,
        n_aux=out.n,
        bits=out.table(),
    )


def _label_chain(layer: int, n_parents: int) -> tuple[Compression, ...]:
    sizes = [N_BITS, NODE_BITS, *[N_BITS] * n_parents]
    ends = np.cumsum(sizes).tolist()
    numbers = [[Bit(v) for v in range(end - n, end)] for n, end in zip(sizes, ends, strict=True)]
    return chain(tuple(label_message(layer, numbers[0], numbers[1], numbers[2:])))


class _Writer:
    """A `BitTable` in the making, in the order of the variables."""

    def __init__(self) -> None:
        self.n = 0
        self._parts: list[tuple[Array, Array, Array]] = []

    def numbers(self, n: int) -> int:
        """`n` variables that are no bits; returns the first."""
        self._append(np.zeros(n), np.zeros(n), np.zeros(n))
        return self.n - n

    def bits(self, words: Sequence[int] | Array, bits: Sequence[int] | Array) -> None:
        """Bits of words, each counted from the least significant."""
        self._append(np.asarray(words), np.asarray(bits), np.zeros(len(bits)))

    def bits_of(self, first: int, n: int) -> None:
        """The low `n` bits of the number in words from `first` on."""
        places = np.arange(n)
        self.bits(first + places // LIMB_BITS, places % LIMB_BITS)

    def compressions(self, first: Sequence[int], recorded: Sequence[Compression]) -> None:
        """What compressions allocate, the steps of each in words from one of `first` on."""
        for start, compression in zip(first, recorded, strict=True):
            step, bit = compression.step.numpy(), compression.bit.numpy()
            words = start + WORDS_A_STEP * step + bit // LIMB_BITS
            self._append(words, bit % LIMB_BITS, -compression.flipped.numpy())

    def table(self) -> BitTable:
        word, bit, flip = (np.concatenate(column) for column in zip(*self._parts, strict=True))
        return BitTable(word, (LIMB_BITS - 1 - bit).astype(np.int8), flip)

    def _append(self, words: Array, bits: Array, flips: Array) -> None:
        columns = (words.astype(np.int32), bits.astype(np.int8), flips.astype(np.int8))
        self._parts.append(columns)
        self.n += words.shape[0]
