"""The values of `insertion.select`. Source: spec/gadgets.md section 7."""

from __future__ import annotations

import torch


def select_wires(choices: torch.Tensor, bits: torch.Tensor) -> torch.Tensor:
    """The values that `insertion.select` allocates, for a batch that shares its choices.

    Args:
        choices: int32 `[8, 2^k]`.
        bits: bool `[k, n]`, least significant first.

    Returns:
        int32 `[8, 2^k - 1, n]`, the last the choice that the bits name.
    """
    left = choices.unsqueeze(2).expand(-1, -1, bits.shape[1])
    wires = []
    for bit in reversed(bits.unbind(0)):
        half = left.shape[1] // 2
        left = torch.where(bit, left[:, half:], left[:, :half])
        wires.append(left)
    return torch.cat(wires, dim=1)
