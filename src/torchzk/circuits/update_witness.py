"""What the EmptySectorUpdate circuit takes as its witness: one partition, typed, as tensors."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from torchzk.errors import LayoutError


@dataclass(frozen=True)
class UpdateWitness:
    """One partition of an update.

    Fr tensors are int32 limb planes in Montgomery form (`ops/layout.py`), all on one device:
    `c` challenges, levels of paths from the leaf upwards. Where a challenge lies is not here: the
    circuit derives it from `comm_r_new`. Nor are the new replica's leaves: they follow from the
    other two. Source: spec/post_update.md sections 8 and 10.
    """

    partition: torch.Tensor
    """int64 `[1]`: k, the number of the partition."""
    comm_r_old: torch.Tensor
    """`[8, 1]`"""
    comm_d_new: torch.Tensor
    """`[8, 1]`"""
    comm_r_new: torch.Tensor
    """`[8, 1]`"""
    comm_c: torch.Tensor
    """`[8, 1]`: root of TreeC, which the update leaves as it is."""
    root_r_old: torch.Tensor
    """`[8, 1]`: root of TreeR of the old replica."""
    root_r_new: torch.Tensor
    """`[8, 1]`: root of TreeR of the new replica."""
    apex_leaves: torch.Tensor
    """`[8, apex leaves]`, left to right."""
    partition_path: torch.Tensor
    """`[8, log2 partitions]`: siblings in TreeD above the partition's root, lowest first.

    The last levels of any challenge's path in TreeD.
    """
    leaves_r_old: torch.Tensor
    """`[8, c]`: the challenged nodes of the old replica."""
    leaves_d_new: torch.Tensor
    """`[8, c]`: the challenged nodes of the new data."""
    siblings_r_old: tuple[torch.Tensor, ...]
    """A tensor a level, `[8, c, arity - 1]`: the other children, in order."""
    siblings_r_new: tuple[torch.Tensor, ...]
    """The same of the new replica."""
    siblings_d_new: torch.Tensor
    """`[8, c, levels]`: siblings in TreeD up to the challenge's apex leaf, lowest first.

    The first `UpdateShape.tree_d_levels` levels of the challenge's path in TreeD.
    """

    def __post_init__(self) -> None:
        c = self.n_challenges
        single = [self.comm_r_old, self.comm_d_new, self.comm_r_new]
        single += [self.comm_c, self.root_r_old, self.root_r_new]
        of_challenges = [self.leaves_r_old, self.leaves_d_new]
        expected = [(8, 1)] * 6 + [(8, c)] * 2
        got = [tuple(x.shape) for x in single + of_challenges]
        if self.partition.dtype != torch.int64 or self.partition.shape != (1,):
            raise LayoutError(f"one number of a partition: got {list(self.partition.shape)}")
        if got != expected:
            raise LayoutError(f"6 numbers and 2 leaves for each of {c} challenges: got {got}")
        levels = [x.shape[:2] for x in (*self.siblings_r_old, *self.siblings_r_new)]
        levels.append(self.siblings_d_new.shape[:2])
        if any(shape != (8, c) for shape in levels):
            raise LayoutError(f"siblings for {c} challenges: got {[list(s) for s in levels]}")
        if self.arities != tuple(x.shape[2] + 1 for x in self.siblings_r_new):
            raise LayoutError("the paths in the old and the new TreeR have different arities")

    @property
    def n_challenges(self) -> int:
        return self.leaves_r_old.shape[-1]

    @property
    def arities(self) -> tuple[int, ...]:
        """Arity of each level of TreeR, from the leaf upwards."""
        return tuple(x.shape[2] + 1 for x in self.siblings_r_old)
