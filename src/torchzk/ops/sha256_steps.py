"""Every intermediate word of many compressions of SHA-256: what a circuit's variables are made of.

Source: params/sha256_steps.py, which numbers them.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from torchzk.errors import LayoutError
from torchzk.params import sha256_steps as steps
from torchzk.params.sha256 import WORD_BITS

_MASK = (1 << WORD_BITS) - 1


def sha256_steps(blocks: torch.Tensor, states: torch.Tensor) -> torch.Tensor:
    """All steps of a batch of compressions.

    Args:
        blocks: Words of 32 bits, int32 `[16, n]`.
        states: Words of 32 bits, int32 `[8, n]`.

    Returns:
        int64 `[N_STEPS, n]`, none of them negative. Sums are kept whole, up to 35 bits. The last
        8 hold the new state in their lower 32 bits.

    Raises:
        LayoutError: The words are not int32, or not 16 and 8 for each of the batch.
    """
    check_words(blocks, states)
    run = _Values()
    block, state = (x.to(torch.int64) & _MASK for x in (blocks, states))
    steps.run(run, block.unbind(0), state.unbind(0))
    return torch.stack(run.words)


def check_words(blocks: torch.Tensor, states: torch.Tensor) -> None:
    """Raise `LayoutError` unless these are the blocks and states of a batch."""
    shapes = (blocks.shape, states.shape)
    n = blocks.shape[-1] if blocks.ndim else 0
    types = {blocks.dtype, states.dtype}
    if shapes != ((16, n), (8, n)) or types != {torch.int32} or blocks.device != states.device:
        raise LayoutError(
            "compressions take int32 [16, n] and [8, n] on one device, got "
            + " and ".join(f"{x.dtype} {list(x.shape)} on {x.device}" for x in (blocks, states))
        )


class _Values:
    """Words as int64 `[n]`. `words` has the result of every step."""

    def __init__(self) -> None:
        self.words: list[torch.Tensor] = []

    def constant(self, value: int) -> torch.Tensor:
        return torch.tensor(value)

    def rotr(self, word: torch.Tensor, n: int) -> torch.Tensor:
        return word >> n | word << WORD_BITS - n & _MASK

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
        return self._note(total) & _MASK

    def _note(self, word: torch.Tensor) -> torch.Tensor:
        self.words.append(word)
        return word
