"""The labels that a PoRep witness implies, and the words that its bits stand in.

Only the blocks of a label depend on each other; all challenges and layers are done at once, since
a label's parents are given. Source: spec/porep.md sections 5 and 11.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from torchzk.backends import Backend
from torchzk.circuits.gadgets.words import (
    constant_words,
    hash_number,
    new_state,
    padding_words,
    swapped,
)
from torchzk.circuits.labels import parent_rows, repeated
from torchzk.circuits.porep_shapes import LABEL_PARENTS
from torchzk.circuits.porep_wires import LABEL_BLOCKS, Bank
from torchzk.circuits.porep_witness import PorepWitness
from torchzk.device_cache import kept_by_device
from torchzk.params.fields import FR, LIMB_BITS
from torchzk.params.sha256 import IV
from torchzk.params.sha256_steps import N_STEPS

_LABEL_BITS = 512 + 256 * LABEL_PARENTS
_ZERO_WORDS = 5


def labels_and_bank(
    backend: Backend, witness: PorepWitness, bank: Bank
) -> tuple[torch.Tensor, torch.Tensor]:
    """Compute both, on the device of the witness.

    Returns:
        The labels of the challenged nodes, int32 `[8, c, layers]` in Montgomery form, and the
        bank of each challenge, int32 `[c, bank.n_words]`.
    """
    c = witness.n_challenges
    words = torch.zeros(c, bank.n_words, dtype=torch.int32, device=witness.challenges.device)
    steps = words[:, bank.steps :].view(torch.int64)
    nodes = witness.challenges.contiguous().view(torch.int32)
    words[:, bank.node : bank.node + 2] = nodes.view(c, 2)
    words[:, bank.data_indices : bank.rows] = witness.data_paths.indices
    rows = backend.from_mont(witness.parent_columns.flatten(2), FR)
    n_rows = FR.n_limbs * rows.shape[2]
    words[:, bank.rows : bank.rows + n_rows] = rows.permute(1, 2, 0).flatten(1)
    labels = _labels(backend, witness, rows, steps)
    return backend.to_mont(labels, FR), words


def _labels(
    backend: Backend, witness: PorepWitness, rows: torch.Tensor, steps: torch.Tensor
) -> torch.Tensor:
    """The labels of the challenged nodes, `[8, c, layers]` in canonical form.

    Args:
        backend: The operations to use.
        witness: Of `c` challenges.
        rows: `[8, c, 14 layers]`: the parents' columns in canonical form.
        steps: int64 `[c, 20 layers N_STEPS]`, to be filled in.
    """
    c, layers = witness.n_challenges, witness.layers
    const = _constants(layers, rows.device)
    replica_id = swapped(backend.from_mont(witness.replica_id.unsqueeze(1), FR))
    node = witness.challenges.view(1, c, 1).expand(1, c, layers)
    parents = swapped(rows).index_select(2, const.parents)
    # the conversion keeps the low 32 bits
    message = torch.cat(
        (
            replica_id.unsqueeze(2).expand(-1, c, layers),
            const.layers.expand(1, c, layers),
            (node >> LIMB_BITS).to(torch.int32),
            node.to(torch.int32),
            node.new_zeros(_ZERO_WORDS, c, layers, dtype=torch.int32),
            parents.view(8, c, layers, LABEL_PARENTS).movedim(3, 0).flatten(0, 1),
            const.end.unsqueeze(2).expand(-1, c, layers),
        )
    )
    state = const.iv.expand(-1, c * layers)
    by_block = steps.view(c, LABEL_BLOCKS, layers, N_STEPS)
    for i, block in enumerate(message.view(LABEL_BLOCKS, -1, c * layers)):
        new = backend.sha256_steps(block, state)
        by_block[:, i] = new.view(N_STEPS, c, layers).permute(1, 2, 0)
        state = new_state(new)
    return hash_number(state).view(8, c, layers)


@dataclass(frozen=True)
class _Constants:
    """Words of messages, int32."""

    iv: torch.Tensor
    """`[8, 1]`"""
    layers: torch.Tensor
    """`[layers]`: their numbers."""
    end: torch.Tensor
    """`[8, 1]`: the end of a label's last block."""
    parents: torch.Tensor
    """int64 `[layers 37]`: the row among `[14 layers]` of each label that is hashed."""


@kept_by_device(8)
def _constants(layers: int, device: torch.device) -> _Constants:
    rows = []
    for layer in range(1, layers + 1):
        rows += repeated([column * layers + row for column, row in parent_rows(layer)])
    return _Constants(
        iv=constant_words(IV, device),
        layers=constant_words(range(1, layers + 1), device).flatten(),
        end=constant_words(padding_words(_LABEL_BITS), device),
        parents=torch.tensor(rows, device=device),
    )
