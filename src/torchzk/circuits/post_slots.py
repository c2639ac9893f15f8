"""What the FallbackPoSt circuit takes as its witness: one partition of typed vanilla proofs."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from torchzk.errors import LayoutError


@dataclass(frozen=True)
class PostSlots:
    """The sector slots of one partition, padding included, in circuit order.

    Fr tensors are int32 limb planes in Montgomery form (`ops/layout.py`), all on one device:
    `s` slots, `c` challenges a slot, one Merkle path a challenge, levels from the leaf upwards.

    Window PoSt: a slot is a sector with its ten challenges. Winning PoSt: 66 slots of one
    challenge each, all with the commitments of the one sector. Source: spec/post_update.md 1, 5.
    """

    comm_r: torch.Tensor
    """`[8, s]`"""
    comm_c: torch.Tensor
    """`[8, s]`"""
    comm_r_last: torch.Tensor
    """`[8, s]`: root of TreeR."""
    leaves: torch.Tensor
    """`[8, s, c]`: the challenged leaves of TreeR."""
    indices: torch.Tensor
    """int64 `[s, c, levels]`: the child's place among its siblings, in [0, arity)."""
    siblings: tuple[torch.Tensor, ...]
    """A tensor a level, `[8, s, c, arity - 1]`: the other children, in order."""

    def __post_init__(self) -> None:
        s, c, levels = self.indices.shape
        expected = [(8, s)] * 3 + [(8, s, c)]
        got = [tuple(x.shape) for x in (self.comm_r, self.comm_c, self.comm_r_last, self.leaves)]
        if got != expected or len(self.siblings) != levels:
            raise LayoutError(f"slots of {s} x {c} challenges, {levels} levels: got {got}")
        for level, x in enumerate(self.siblings):
            if x.ndim != 4 or tuple(x.shape[:3]) != (8, s, c):
                raise LayoutError(f"siblings of level {level}: got {list(x.shape)}")

    @property
    def n_slots(self) -> int:
        return self.indices.shape[0]

    @property
    def n_challenges(self) -> int:
        """Challenges a slot."""
        return self.indices.shape[1]

    @property
    def arities(self) -> tuple[int, ...]:
        """Arity of each level, from the leaf upwards."""
        return tuple(x.shape[3] + 1 for x in self.siblings)
