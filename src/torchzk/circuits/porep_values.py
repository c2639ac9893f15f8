"""What a PoRep witness implies: labels, inner nodes of TreeD, and the words all bits stand in.

Only what depends on each other is done one after another: the blocks of a label, and the levels of
TreeD. Everything else is done for all challenges and layers at once. Source: spec/porep.md
sections 5, 6 and 11.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import torch

from torchzk.backends import Backend
from torchzk.circuits.gadgets.compression import N_STEPS, compression_steps
from torchzk.circuits.gadgets.sha256 import padding
from torchzk.circuits.gadgets.uint32 import MASK, WORD_BITS
from torchzk.circuits.porep import parent_rows
from torchzk.circuits.porep_shapes import LABEL_PARENTS
from torchzk.circuits.porep_wires import LABEL_BLOCKS, NODE_BLOCKS, Bank
from torchzk.circuits.porep_witness import PorepWitness
from torchzk.params.fields import FR
from torchzk.params.sha256 import IV

_LABEL_BITS = 512 + 256 * LABEL_PARENTS
_NODE_BITS = 512
# the top limb of a hash without its two top bits
_TOP_MASK = (1 << 30) - 1


@dataclass(frozen=True)
class PorepValues:
    """Fr tensors are int32 limb planes in Montgomery form; `c` challenges."""

    bank: torch.Tensor
    """int32 `[c, n_words]`: see `porep_wires.Bank`."""
    labels: torch.Tensor
    """`[8, c, layers]`: of the challenged nodes."""
    data_children: torch.Tensor
    """`[8, c, data_levels, 2]`: the children in each level of TreeD, in their places."""
    data_nodes: torch.Tensor
    """`[8, c, data_levels]`: their hashes."""


def porep_values(backend: Backend, witness: PorepWitness, bank: Bank) -> PorepValues:
    """Compute all of it, on the device of the witness."""
    c = witness.n_challenges
    words = torch.zeros(c, bank.n_words, dtype=torch.int32, device=witness.challenges.device)
    steps = words[:, bank.steps :].view(torch.int64).view(c, bank.compressions, N_STEPS)
    words[:, bank.node : bank.node + 2] = (
        witness.challenges.contiguous().view(torch.int32).view(c, 2)
    )
    words[:, bank.data_indices : bank.rows] = witness.data_paths.indices
    rows = backend.from_mont(witness.parent_columns.flatten(2), FR)
    words[:, bank.rows : bank.children] = rows.permute(1, 2, 0).flatten(1)
    labels = _labels(backend, witness, rows, steps[:, : bank.label_compressions])
    children, nodes = _data_nodes(backend, witness, steps[:, bank.label_compressions :])
    end = bank.children + children.numel() // c
    words[:, bank.children : end] = children.movedim(0, -1).flatten(1)
    return PorepValues(
        bank=words,
        labels=backend.to_mont(labels, FR),
        data_children=backend.to_mont(children, FR),
        data_nodes=backend.to_mont(nodes, FR),
    )


def _labels(
    backend: Backend, witness: PorepWitness, rows: torch.Tensor, steps: torch.Tensor
) -> torch.Tensor:
    """The labels of the challenged nodes, `[8, c, layers]` in canonical form.

    Args:
        backend: The operations to use.
        witness: Of `c` challenges.
        rows: `[8, c, 14 layers]`: the parents' columns in canonical form.
        steps: int64 `[c, layers 20, N_STEPS]`, to be filled in.
    """
    c, layers = witness.n_challenges, witness.layers
    const = _constants(layers, rows.device)
    replica_id = _big_endian(backend.from_mont(witness.replica_id.unsqueeze(1), FR))
    node = witness.challenges.view(1, c, 1).expand(1, c, layers)
    parents = _big_endian(rows).index_select(2, const.parents)
    message = torch.cat(
        (
            replica_id.unsqueeze(2).expand(-1, c, layers),
            const.layers.expand(1, c, layers),
            node >> WORD_BITS,
            node & MASK,
            const.zeros.expand(-1, c, layers),
            parents.view(8, c, layers, LABEL_PARENTS).movedim(3, 0).flatten(0, 1),
            const.label_end.expand(-1, c, layers),
        )
    )
    state = const.iv.expand(8, c, layers)
    by_block = steps.view(c, layers, LABEL_BLOCKS, N_STEPS)
    for i, block in enumerate(message.view(LABEL_BLOCKS, -1, c, layers)):
        new, state = compression_steps(block, state)
        by_block[:, :, i] = new.permute(1, 2, 0)
    return _number(state)


def _data_nodes(
    backend: Backend, witness: PorepWitness, steps: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Children `[8, c, levels, 2]` and nodes `[8, c, levels]` of TreeD, in canonical form.

    Args:
        backend: The operations to use.
        witness: Of `c` challenges.
        steps: int64 `[c, levels 2, N_STEPS]`, to be filled in.
    """
    paths = witness.data_paths
    const = _constants(witness.layers, steps.device)
    siblings = backend.from_mont(torch.cat(paths.siblings, dim=2), FR)
    node = backend.from_mont(witness.data_leaves, FR)
    is_right = paths.indices.bool()
    c, levels = paths.indices.shape
    by_level = steps.view(c, levels, NODE_BLOCKS, N_STEPS)
    iv, end = const.iv[..., 0].expand(8, c), const.node_end[..., 0].expand(-1, c)
    children, nodes = [], []
    for level in range(levels):
        sibling, swapped = siblings[:, :, level], is_right[:, level]
        left, right = torch.where(swapped, sibling, node), torch.where(swapped, node, sibling)
        first, state = compression_steps(_big_endian(torch.cat((left, right))), iv)
        second, state = compression_steps(end, state)
        by_level[:, level] = torch.stack((first, second)).movedim(2, 0)
        node = _number(state)
        children.append(torch.stack((left, right), dim=2))
        nodes.append(node)
    return torch.stack(children, dim=2), torch.stack(nodes, dim=2)


@dataclass(frozen=True)
class _Constants:
    """int64 words, ready to be expanded to `[n, c, layers]`."""

    iv: torch.Tensor
    layers: torch.Tensor
    zeros: torch.Tensor
    label_end: torch.Tensor
    node_end: torch.Tensor
    parents: torch.Tensor
    """int64 `[layers 37]`: the row among `[14 layers]` of each label that is hashed."""


@lru_cache(maxsize=8)
def _constants(layers: int, device: torch.device) -> _Constants:
    def column(values: list[int]) -> torch.Tensor:
        return torch.tensor(values, device=device).view(-1, 1, 1)

    rows = []
    for layer in range(1, layers + 1):
        own = [column * layers + row for column, row in parent_rows(layer)]
        rows += [own[i % len(own)] for i in range(LABEL_PARENTS)]
    return _Constants(
        iv=column(list(IV)),
        layers=torch.arange(1, layers + 1, device=device).view(1, 1, layers),
        zeros=column([0] * 5),
        label_end=column(_end_words(_LABEL_BITS)),
        node_end=column(_end_words(_NODE_BITS)),
        parents=torch.tensor(rows, device=device),
    )


def _end_words(n_bits: int) -> list[int]:
    bits = padding(n_bits)
    return [
        sum(bit << WORD_BITS - 1 - i for i, bit in enumerate(bits[start : start + WORD_BITS]))
        for start in range(0, len(bits), WORD_BITS)
    ]


def _big_endian(limbs: torch.Tensor) -> torch.Tensor:
    """The words of a number's 32 bytes as SHA-256 reads them: int32 limbs to int64 words."""
    return _swapped(limbs).to(torch.int64) & MASK


def _number(state: torch.Tensor) -> torch.Tensor:
    """A hash, int64 words `[8, *batch]`, as a number of 254 bits in canonical form."""
    # the conversion keeps the low 32 bits
    limbs = _swapped(state.to(torch.int32))
    limbs[-1] &= _TOP_MASK
    return limbs


def _swapped(words: torch.Tensor) -> torch.Tensor:
    """The bytes of int32 words in reverse."""
    octets = words.contiguous().view(torch.uint8).view(*words.shape, 4)
    return octets.flip(-1).view(torch.int32).squeeze(-1)
