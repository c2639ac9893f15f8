"""Words of SHA-256 on a device, int32: from the limbs of a number, to one, and of constants."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from torchzk.circuits.gadgets.multipack import CAPACITY
from torchzk.circuits.gadgets.sha256 import padding
from torchzk.params.fields import FR, LIMB_BITS
from torchzk.params.sha256 import WORD_BITS

STATE_WORDS = 8
# of the top limb of a digest as a number
_TOP_BITS = CAPACITY - LIMB_BITS * (FR.n_limbs - 1)


def swapped(words: torch.Tensor) -> torch.Tensor:
    """Int32 words with their bytes in the other order: limbs to what SHA-256 reads, and back."""
    octets = words.contiguous().view(torch.uint8).view(*words.shape, LIMB_BITS // 8)
    return octets.flip(-1).view(torch.int32).squeeze(-1)


def new_state(steps: torch.Tensor) -> torch.Tensor:
    """The state after compressions, int32 `[8, n]`, of their steps, int64 `[N_STEPS, n]`."""
    # the conversion keeps the low 32 bits
    return steps[-STATE_WORDS:].to(torch.int32)


def hash_number(state: torch.Tensor) -> torch.Tensor:
    """A digest, int32 `[8, *batch]`, as a number of 254 bits in canonical form, likewise."""
    limbs = swapped(state)
    limbs[-1] &= (1 << _TOP_BITS) - 1
    return limbs


def constant_words(values: Sequence[int], device: torch.device) -> torch.Tensor:
    """Words from [0, 2^32) as int32 `[n, 1]`."""
    return torch.tensor(values, device=device).to(torch.int32).unsqueeze(1)


def padding_words(n_bits: int) -> list[int]:
    """The words after a message of so many bits, a multiple of 32, that end its last block."""
    bits = padding(n_bits)
    return [
        sum(bit << WORD_BITS - 1 - i for i, bit in enumerate(bits[start : start + WORD_BITS]))
        for start in range(0, len(bits), WORD_BITS)
    ]
