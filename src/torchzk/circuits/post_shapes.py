"""How many sectors and challenges a PoSt partition holds, as data.

Source: spec/post_update.md section 1.
"""

from __future__ import annotations

from dataclasses import dataclass

from torchzk.circuits.registered import PostKind
from torchzk.circuits.sectors import SECTOR_SHAPES, SectorShape

WINNING_CHALLENGES = 66
WINDOW_CHALLENGES = 10
_SMALL_WINDOW_SECTORS = 2
_WINDOW_SECTORS = {32 << 30: 2349, 64 << 30: 2300}


@dataclass(frozen=True)
class PostShape:
    """A partition: `n_slots` slots of `n_challenges` Merkle paths each."""

    kind: PostKind
    sector: SectorShape
    n_slots: int
    n_challenges: int

    @property
    def sectors_per_partition(self) -> int:
        """Winning PoSt unrolls the challenges of its one sector into slots."""
        return 1 if self.kind == "winning" else self.n_slots

    @property
    def challenges_per_sector(self) -> int:
        """Merkle paths in the vanilla proof of one sector."""
        return self.n_slots * self.n_challenges // self.sectors_per_partition


def post_shape(kind: PostKind, sector_size: int) -> PostShape:
    """The shape for one of the sizes of `SECTOR_SHAPES`."""
    sector = SECTOR_SHAPES[sector_size]
    if kind == "winning":
        return PostShape(kind, sector, WINNING_CHALLENGES, 1)
    n_slots = _WINDOW_SECTORS.get(sector_size, _SMALL_WINDOW_SECTORS)
    return PostShape(kind, sector, n_slots, WINDOW_CHALLENGES)
