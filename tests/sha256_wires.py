"""Values of the SHA-256 gadgets bit by bit, which `pair_wires` is held against."""

from __future__ import annotations

import torch

from torchzk.backends import Backend
from torchzk.circuits.gadgets.boolean import Boolean
from torchzk.circuits.gadgets.compression import Compression
from torchzk.circuits.gadgets.num import bit_wires, to_bits_wires
from torchzk.circuits.gadgets.sha256 import chain, numbers_pattern, padding
from torchzk.circuits.gadgets.words import hash_number, new_state
from torchzk.params.fields import FR
from torchzk.params.sha256 import IV, WORD_BITS


def sha256_wires(
    backend: Backend, pattern: tuple[Boolean, ...], message: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """The values of `sha256`, for a batch.

    Args:
        backend: The operations to use.
        pattern: The message as the circuit sees it: constants, and formal variables for the rest.
        message: bool `[len(pattern), *batch]`, constants included.

    Returns:
        The allocated bits in order, bool `[n, *batch]`, and the digest, int32 words `[8, *batch]`.
    """
    end = torch.tensor(padding(len(pattern)), device=message.device)
    batch = message.shape[1:]
    end = end.view(-1, *[1] * len(batch)).expand(-1, *batch)
    blocks = torch.cat((message, end)).view(-1, 16, WORD_BITS, *batch).to(torch.int32)
    iv = torch.tensor(IV, device=message.device).to(torch.int32)
    state = iv.view(8, *[1] * len(batch)).expand(8, *batch)
    wires = []
    for recorded, block in zip(chain(pattern), _words(blocks.movedim(2, 0)), strict=True):
        new, state = _compress_wires(backend, recorded, block, state)
        wires.append(new)
    return torch.cat(wires), state


def hash_numbers_wires(backend: Backend, numbers: torch.Tensor) -> torch.Tensor:
    """The values of `hash_numbers`: `[8, k, *batch]` to `[8, n, *batch]`, the last the digest."""
    bits = to_bits_wires(backend, numbers).transpose(0, 1)
    k, batch = bits.shape[0], bits.shape[2:]
    padded = torch.cat((bits, torch.zeros_like(bits[:, :1])), dim=1)
    message = padded.reshape(-1, 8, *batch).flip(1).flatten(0, 1)
    hashed, digest = sha256_wires(backend, numbers_pattern(k), message)
    number = backend.to_mont(hash_number(digest), FR)
    wires = bit_wires(torch.cat((bits.flatten(0, 1), hashed)))
    return torch.cat((wires, number.unsqueeze(1)), dim=1)


def _compress_wires(
    backend: Backend, recorded: Compression, block: torch.Tensor, state: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Of one compression the bits, bool `[n_aux, *batch]`, and the new state."""
    batch = block.shape[1:]
    run = backend.sha256_steps(block.reshape(16, -1), state.reshape(8, -1))
    step, bit, flipped = (
        x.to(block.device) for x in (recorded.step, recorded.bit, recorded.flipped)
    )
    bits = (run.index_select(0, step) >> bit.unsqueeze(1) & 1) ^ flipped.unsqueeze(1)
    return bits.bool().view(-1, *batch), new_state(run).view(-1, *batch)


def _words(bits: torch.Tensor) -> torch.Tensor:
    """int32 `[32, ...]`, most significant bit first, to words `[...]`."""
    words = torch.zeros_like(bits[0])
    for bit in bits:
        words = words << 1 | bit
    return words
