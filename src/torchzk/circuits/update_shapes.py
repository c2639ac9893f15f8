"""How an EmptySectorUpdate is cut into partitions and challenges, as data.

Source: spec/post_update.md section 6.
"""

from __future__ import annotations

from dataclasses import dataclass

from torchzk.circuits.sectors import SECTOR_SHAPES, SectorShape
from torchzk.errors import ConfigError

DIGEST_BITS = 254
"""Bits of a digest that challenges are cut from."""
_SMALL_HS = (1,) * 6
_HS = (7, 8, 9, 10, 11, 12)
# by log2 of the number of nodes: partitions, challenges, apex leaves a partition, allowed h
_CONSTANTS = {
    **dict.fromkeys(range(5, 9), (1, 10, 8, _SMALL_HS)),
    **dict.fromkeys(range(9, 11), (2, 10, 128, _SMALL_HS)),
    **dict.fromkeys(range(18, 20), (4, 10, 128, _HS)),
    **dict.fromkeys((24, 30, 31), (16, 86, 128, _HS)),
}
_DEFAULT_H = {_SMALL_HS: 1, _HS: 10}


def _log2(n: int) -> int:
    return n.bit_length() - 1


@dataclass(frozen=True)
class UpdateShape:
    """A partition of an update: `n_challenges` nodes are opened in three trees each."""

    sector: SectorShape
    n_partitions: int
    n_challenges: int
    """Challenges a partition."""
    n_apex_leaves: int
    """Nodes of TreeD that a partition holds once, for all its challenges."""
    hs: tuple[int, ...]
    """The h that the circuit can select, in the order of its select bits."""
    h: int
    """How many high bits of a node's index its randomness rho depends on."""

    @property
    def node_bits(self) -> int:
        """Bits of a node's index."""
        return _log2(self.sector.n_nodes)

    @property
    def partition_bits(self) -> int:
        """High bits of a node's index, which are the partition's number."""
        return _log2(self.n_partitions)

    @property
    def challenge_bits(self) -> int:
        """B: low bits of a node's index, which a challenge draws."""
        return self.node_bits - self.partition_bits

    @property
    def apex_bits(self) -> int:
        """Levels of the apex tree."""
        return _log2(self.n_apex_leaves)

    @property
    def tree_d_levels(self) -> int:
        """Levels of TreeD from a node up to an apex leaf."""
        return self.challenge_bits - self.apex_bits

    @property
    def challenges_per_digest(self) -> int:
        """C: challenges that are cut from one digest."""
        return DIGEST_BITS // self.challenge_bits

    @property
    def n_digests(self) -> int:
        """D: digests a partition."""
        return -(-self.n_challenges // self.challenges_per_digest)

    @property
    def h_select(self) -> int:
        """The public input's part that selects h: the bit of its first place in `hs`."""
        return 1 << self.hs.index(self.h)


def update_shape(sector_size: int) -> UpdateShape:
    """The shape for a size of `SECTOR_SHAPES`, with the usual `h`.

    Raises:
        ConfigError: No update is specified for the size.
    """
    sector = SECTOR_SHAPES.get(sector_size)
    if sector is None or _log2(sector.n_nodes) not in _CONSTANTS:
        there_are = (s for s in SECTOR_SHAPES.values() if _log2(s.n_nodes) in _CONSTANTS)
        sizes = ", ".join(f"{s.sector_size} ({s.name})" for s in there_are)
        raise ConfigError(f"no update circuit of {sector_size} byte sectors; there are {sizes}")
    return shape_of_sector(sector)


def shape_of_sector(sector: SectorShape) -> UpdateShape:
    """The shape for a sector, registered or not; see `update_shape`."""
    partitions, challenges, apex_leaves, hs = _CONSTANTS[_log2(sector.n_nodes)]
    return UpdateShape(sector, partitions, challenges, apex_leaves, hs, _DEFAULT_H[hs])
