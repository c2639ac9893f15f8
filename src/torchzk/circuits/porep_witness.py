"""What the PoRep circuit takes as its witness: one partition of typed vanilla proofs."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from torchzk.circuits.porep_shapes import PARENTS
from torchzk.errors import LayoutError

REPLICA_PATH = PARENTS
"""Place of the challenged node's TreeR path among the paths of a challenge."""
COLUMN_PATH = PARENTS + 1
"""Place of its own column's TreeC path."""
PATHS = PARENTS + 2


@dataclass(frozen=True)
class MerklePaths:
    """Merkle paths of one tree shape, levels from the leaf upwards, without leaves and roots."""

    indices: torch.Tensor
    """int64 `[*batch, levels]`: the child's place among its siblings, in [0, arity)."""
    siblings: tuple[torch.Tensor, ...]
    """A tensor a level, `[8, *batch, arity - 1]`: the other children, in order."""

    def __post_init__(self) -> None:
        *batch, levels = self.indices.shape
        if self.indices.dtype != torch.int64 or len(self.siblings) != levels:
            got = f"{self.indices.dtype} {list(self.indices.shape)}"
            raise LayoutError(f"indices are int64 [*batch, {len(self.siblings)} levels], got {got}")
        for level, x in enumerate(self.siblings):
            if x.dtype != torch.int32 or tuple(x.shape[:-1]) != (8, *batch):
                raise LayoutError(f"siblings of level {level}: got {x.dtype} {list(x.shape)}")

    @property
    def batch(self) -> tuple[int, ...]:
        return tuple(self.indices.shape[:-1])

    @property
    def arities(self) -> tuple[int, ...]:
        """Arity of each level, from the leaf upwards."""
        return tuple(x.shape[-1] + 1 for x in self.siblings)


@dataclass(frozen=True)
class PorepWitness:
    """The challenges of one partition, in circuit order, as a C1 output gives them.

    Fr tensors are int32 limb planes in Montgomery form (`ops/layout.py`), all on one device:
    `c` challenges of `layers` layers. What follows from these values is not part of it: column
    hashes, inner nodes, the labels of the challenged nodes and their replica nodes. Whether it is
    consistent is not looked at. Source: spec/porep.md sections 8 and 11.
    """

    replica_id: torch.Tensor
    """`[8]`"""
    comm_d: torch.Tensor
    """`[8]`: root of TreeD."""
    comm_r: torch.Tensor
    """`[8]`"""
    comm_c: torch.Tensor
    """`[8]`: root of TreeC."""
    comm_r_last: torch.Tensor
    """`[8]`: root of TreeR."""
    challenges: torch.Tensor
    """int64 `[c]`: the challenged nodes (`labeling_proofs[0].node`)."""
    data_leaves: torch.Tensor
    """`[8, c]`: their nodes of data (`comm_d_proofs` leaf)."""
    data_paths: MerklePaths
    """Batch `[c]`, arities all 2: paths of the data nodes in TreeD (`comm_d_proofs`)."""
    parent_columns: torch.Tensor
    """`[8, c, 14, layers]`: rows of the parents' columns, layer 1 first; 6 of the base graph,
    then 8 of the expander (`drg_parents`, `exp_parents`)."""
    paths: MerklePaths
    """Batch `[c, 16]`: the 14 parents' column hashes in TreeC in the order of `parent_columns`,
    then the replica node in TreeR (`comm_r_last_proof`), then the own column's hash in TreeC
    (`c_x`). A path's levels are base, sub, top."""

    def __post_init__(self) -> None:
        roots = (self.replica_id, self.comm_d, self.comm_r, self.comm_c, self.comm_r_last)
        c = self.challenges.shape[0]
        got = [tuple(x.shape) for x in (*roots, self.data_leaves, self.parent_columns)]
        if got != [(8,)] * 5 + [(8, c), (8, c, PARENTS, self.layers)]:
            raise LayoutError(f"a PoRep witness of {c} challenges: got {got}")
        batches = (self.data_paths.batch, self.paths.batch)
        if batches != ((c,), (c, PATHS)) or set(self.data_paths.arities) != {2}:
            raise LayoutError(f"paths of {c} challenges: batches {batches}")
        if self.challenges.dtype != torch.int64:
            raise LayoutError(f"challenges are int64, got {self.challenges.dtype}")

    @property
    def n_challenges(self) -> int:
        return self.challenges.shape[0]

    @property
    def layers(self) -> int:
        return self.parent_columns.shape[-1]
