"""What a partition of the StackedDrg PoRep proves at every sector size, as data.

Source: spec/porep.md section 1.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from torchzk.circuits.sectors import SECTOR_SHAPES, SectorShape

DRG_PARENTS = 6
EXPANDER_PARENTS = 8
PARENTS = DRG_PARENTS + EXPANDER_PARENTS
LABEL_PARENTS = 37
"""Parent labels that a label is the hash of: the parents', repeated."""
_LARGE = frozenset({32 << 30, 64 << 30})


@dataclass(frozen=True)
class StackedShape:
    """One partition: `n_challenges` challenged nodes of a sector of `layers` layers."""

    sector: SectorShape
    layers: int
    n_challenges: int
    """Challenges a partition."""
    n_partitions: int
    """Partitions of an interactive or synthetic proof."""
    ni_partitions: int
    """Partitions of a non-interactive proof."""

    @property
    def data_levels(self) -> int:
        """Levels of TreeD, which is binary."""
        return self.sector.n_nodes.bit_length() - 1

    @property
    def arities(self) -> tuple[int, ...]:
        """Arity of each level of TreeC and TreeR, from the leaf upwards."""
        return self.sector.tree_r.arities

    @property
    def cache_identifier(self) -> str:
        """File name stem of the official parameters, without the version. spec/groth16.md 10."""
        name = self.sector.tree_r.name
        text = (
            "layered_drgporep::PublicParams{ graph: stacked_graph::StackedGraph{expansion_degree: "
            f"{EXPANDER_PARENTS} base_graph: drgraph::BucketGraph{{size: {self.sector.n_nodes}; "
            f"degree: {DRG_PARENTS}; hasher: poseidon_hasher}} }}, challenges: LayerChallenges {{ "
            f"layers: {self.layers}, max_count: {self.n_challenges} }}, tree: {name} }}"
        )
        digest = hashlib.sha256(text.encode()).hexdigest()
        return f"stacked-proof-of-replication-{name}-sha256_hasher-{digest}"


def porep_shape(sector_size: int) -> StackedShape:
    """The shape for one of the sizes of `SECTOR_SHAPES`, in bytes."""
    sector = SECTOR_SHAPES[sector_size]
    if sector_size in _LARGE:
        return StackedShape(sector, 11, 18, 10, 126)
    return StackedShape(sector, 2, 2, 1, 13)
