"""Nodes of TreeD as field elements, by the plain SHA-256.

The nodes of a path depend on each other. Once they are known, the circuits of their hashes do
not, and `pair_wires` computes those of all levels at once. Source: spec/gadgets.md section 5.
"""

from __future__ import annotations

import torch

from torchzk.backends import Backend
from torchzk.circuits.gadgets.insertion import insert_wires
from torchzk.params.fields import FR

# the two top bits of a digest are dropped
_TOP_BYTE = 0x3F


def hash_pairs(backend: Backend, pairs: torch.Tensor) -> torch.Tensor:
    """The parents of pairs of nodes: int32 `[8, 2, n]` to `[8, n]`, both in Montgomery form."""
    words = backend.from_mont(pairs, FR)
    messages = words.permute(2, 1, 0).contiguous().flatten(1).view(torch.uint8)
    digests = backend.sha256(messages)
    digests[:, -1] &= _TOP_BYTE
    limbs = digests.flatten().view(torch.int32).view(-1, FR.n_limbs)
    return backend.to_mont(limbs.t().contiguous(), FR)


def tree_pairs(backend: Backend, leaves: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """A whole tree: int32 `[8, n]` leaves to the pairs `[8, 2, n - 1]` and the root `[8, 1]`.

    Pairs are in the order of hashing: rows from the leaves upwards, each from left to right.
    """
    row, rows = leaves, [leaves.new_zeros(8, 2, 0)]
    while row.shape[1] > 1:
        pairs = row.view(8, -1, 2).transpose(1, 2)
        rows.append(pairs)
        row = hash_pairs(backend, pairs)
    return torch.cat(rows, dim=2), row


def path_pairs(
    backend: Backend, leaves: torch.Tensor, bits: torch.Tensor, siblings: torch.Tensor
) -> torch.Tensor:
    """The children that are hashed along paths, which are also the wires of their insertions.

    Args:
        backend: The operations to use.
        leaves: int32 `[8, n]`.
        bits: bool `[levels, n]`, lowest first: whether the node is a right child.
        siblings: int32 `[8, n, levels]`.

    Returns:
        int32 `[8, 2, levels, n]`.
    """
    node, levels = leaves, [leaves.new_zeros(8, 2, 0, leaves.shape[1])]
    for level, bit in enumerate(bits.unbind(0)):
        others = siblings[:, None, :, level]
        _, pair = insert_wires(node, bit.unsqueeze(0), others)
        levels.append(pair.unsqueeze(2))
        if level + 1 < bits.shape[0]:
            node = hash_pairs(backend, pair)
    return torch.cat(levels, dim=2)
