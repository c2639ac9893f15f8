"""SHA-256 of Booleans, and the hash of numbers with it. Source: spec/gadgets.md sections 4, 5.

A 254-bit digest is the 32 bytes read as a little-endian integer, its two top bits dropped.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from torchzk.circuits.gadgets.boolean import Bit, Boolean
from torchzk.circuits.gadgets.compression import (
    BLOCK_BITS,
    Compression,
    compress,
    recognise,
)
from torchzk.circuits.gadgets.multipack import CAPACITY, pack_bits
from torchzk.circuits.gadgets.num import to_bits
from torchzk.circuits.gadgets.uint32 import constant
from torchzk.circuits.recorder import ConstraintSystem, Variable
from torchzk.params.sha256 import IV

_LENGTH_BITS = 64
_NUMBER_BITS = 256


def sha256(cs: ConstraintSystem, message: Sequence[Boolean]) -> list[Boolean]:
    """The digest of whole bytes, each most significant bit first; the digest's bits likewise."""
    state = [constant(word) for word in IV]
    for block in _blocks(message):
        state, _ = compress(cs, block, state)
    return [bit for word in state for bit in word[::-1]]


@lru_cache(maxsize=32)
def chain(pattern: tuple[Boolean, ...]) -> tuple[Compression, ...]:
    """The compressions that the hash of a message of this pattern is made of."""
    used = 1 + max((bit.variable for bit in pattern if isinstance(bit, Bit)), default=-1)
    state, found = [constant(word) for word in IV], []
    for block in _blocks(pattern):
        recorded, given = recognise(block, state)
        state = recorded.new_state(given, used)
        used += recorded.template.n_aux
        found.append(recorded)
    return tuple(found)


def hash_numbers(cs: ConstraintSystem, numbers: Sequence[Variable]) -> Variable:
    """The 254-bit hash of numbers, as a node of TreeD has of its children."""
    bits: list[Boolean] = []
    for v in numbers:
        bits += number_bits(to_bits(cs, v))
    return pack_bits(cs, reverse_in_bytes(sha256(cs, bits))[:CAPACITY])


def reverse_in_bytes(bits: Sequence[Boolean]) -> list[Boolean]:
    """Each group of eight reversed: little-endian bits to big-endian ones and back."""
    return [bit for i in range(0, len(bits), 8) for bit in bits[i : i + 8][::-1]]


def number_bits(bits: Sequence[Boolean]) -> list[Boolean]:
    """The 255 bits of a number to the 256 of its bytes, each most significant bit first."""
    return reverse_in_bytes([*bits, False])


def _blocks(message: Sequence[Boolean]) -> list[list[Boolean]]:
    """The padded message in blocks of 512 bits."""
    bits = [*message, *padding(len(message))]
    return [bits[i : i + BLOCK_BITS] for i in range(0, len(bits), BLOCK_BITS)]


def padding(n: int) -> list[bool]:
    """A one, zeros to the end of a block, and at its very end the length n in bits."""
    zeros = -(n + 1 + _LENGTH_BITS) % BLOCK_BITS
    length = [bool(n >> i & 1) for i in reversed(range(_LENGTH_BITS))]
    return [True, *[False] * zeros, *length]


@lru_cache(maxsize=16)
def numbers_pattern(k: int) -> tuple[Boolean, ...]:
    """k numbers of 255 variable bits and a constant one."""
    bits: list[Boolean] = []
    for i in range(k):
        bits += number_bits([Bit(_NUMBER_BITS * i + j) for j in range(_NUMBER_BITS - 1)])
    return tuple(bits)
