"""SHA-256 of Booleans, and the hash of numbers with it. Source: spec/gadgets.md sections 4, 5.

A 254-bit digest is the 32 bytes read as a little-endian integer, its two top bits dropped.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import torch

from torchzk.backends import Backend
from torchzk.circuits.gadgets.boolean import Bit, Boolean
from torchzk.circuits.gadgets.compression import (
    BLOCK_BITS,
    Compression,
    compress,
    compress_wires,
    recognise,
)
from torchzk.circuits.gadgets.multipack import CAPACITY, pack_bits, pack_bits_wires
from torchzk.circuits.gadgets.num import bit_wires, to_bits, to_bits_wires
from torchzk.circuits.gadgets.uint32 import WORD_BITS, constant
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


def sha256_wires(
    backend: Backend, pattern: tuple[Boolean, ...], message: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """The values of `sha256`, for a batch.

    Args:
        backend: The operations to use.
        pattern: The message as the circuit sees it: constants, and formal variables for the rest.
        message: bool `[len(pattern), *batch]`, constants included.

    Returns:
        The allocated bits in order, bool `[n, *batch]`, and the digest, bool `[256, *batch]`.
    """
    end = torch.tensor(padding(len(pattern)), device=message.device)
    batch = message.shape[1:]
    end = end.view(-1, *[1] * len(batch)).expand(-1, *batch)
    blocks = torch.cat((message, end)).view(-1, 16, WORD_BITS, *batch).to(torch.int32)
    words = _words(blocks.movedim(2, 0))
    iv = torch.tensor(IV, device=message.device).to(torch.int32)
    state = iv.view(8, *[1] * len(batch)).expand(8, *batch)
    wires = []
    for recorded, block in zip(chain(pattern), words, strict=True):
        new, state = compress_wires(backend, recorded, block, state)
        wires.append(new)
    digest = torch.stack([state >> WORD_BITS - 1 - i & 1 for i in range(WORD_BITS)], dim=1)
    return torch.cat(wires), digest.flatten(0, 1).bool()


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


def hash_numbers_wires(backend: Backend, numbers: torch.Tensor) -> torch.Tensor:
    """The values of `hash_numbers`: `[8, k, *batch]` to `[8, n, *batch]`, the last the digest."""
    bits = to_bits_wires(backend, numbers).transpose(0, 1)
    k, batch = bits.shape[0], bits.shape[2:]
    padded = torch.cat((bits, torch.zeros_like(bits[:, :1])), dim=1)
    message = padded.reshape(-1, 8, *batch).flip(1).flatten(0, 1)
    hashed, digest = sha256_wires(backend, numbers_pattern(k), message)
    number = digest.view(-1, 8, *batch).flip(1).flatten(0, 1)[:CAPACITY]
    wires = bit_wires(torch.cat((bits.flatten(0, 1), hashed)))
    return torch.cat((wires, pack_bits_wires(backend, number).unsqueeze(1)), dim=1)


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


def _words(bits: torch.Tensor) -> torch.Tensor:
    """int32 `[32, ...]`, most significant bit first, to words `[...]`."""
    words = torch.zeros_like(bits[0])
    for bit in bits:
        words = words << 1 | bit
    return words
