"""Where the pieces of one PoRep challenge are among its elements and integers.

Columns are in the order c_x, six DRG parents, eight expander parents. Source: spec/porep.md
section 8.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from torchzk.circuits.labels import parent_rows, repeated
from torchzk.circuits.layouts import Places, Template, template
from torchzk.circuits.part_paths import MerklePart, merkle_part
from torchzk.circuits.porep_layout import challenge_layout
from torchzk.circuits.porep_shapes import (
    DRG_PARENTS,
    EXPANDER_PARENTS,
    StackedShape,
)


@dataclass(frozen=True)
class LabelPart:
    """A labeling proof."""

    name: str
    parents: slice
    layer: int
    node: int


@dataclass(frozen=True)
class PorepParts:
    """The pieces of a challenge of one shape."""

    data: MerklePart
    replica: MerklePart
    columns: tuple[MerklePart, ...]
    """15 inclusion proofs."""
    column_nodes: tuple[int, ...]
    """Integers: the node of each column."""
    rows: Places
    """Elements `[15, layers]`: the rows of the columns, layer 1 first."""
    labels: tuple[LabelPart, ...]
    """A labeling proof a layer, then the encoding proof."""
    label_sources: Places
    """Elements `[layers, 37]`: the column rows that the parents of a label must equal."""

    @property
    def paths(self) -> tuple[MerklePart, ...]:
        """The paths in Poseidon trees: 14 parents' columns, the replica node, the own column."""
        return (*self.columns[1:], self.replica, self.columns[0])


@lru_cache(maxsize=16)
def porep_parts(shape: StackedShape) -> PorepParts:
    """The pieces, found by their names once."""
    known = template(challenge_layout(shape))
    group = "replica_column_proofs"
    names = [
        f"{group}.c_x",
        *(f"{group}.drg_parents[{i}]" for i in range(DRG_PARENTS)),
        *(f"{group}.exp_parents[{i}]" for i in range(EXPANDER_PARENTS)),
    ]
    rows = np.array(
        [_range(known.parts[f"{name}.column.rows"].elements) for name in names], dtype=np.intp
    )
    labels = [*(f"labeling_proofs[{i}]" for i in range(shape.layers)), "encoding_proof"]
    return PorepParts(
        data=merkle_part(known, "comm_d_proofs"),
        replica=merkle_part(known, "comm_r_last_proof"),
        columns=tuple(merkle_part(known, f"{name}.inclusion_proof") for name in names),
        column_nodes=tuple(_integer(known, f"{name}.column.index") for name in names),
        rows=rows,
        labels=tuple(
            LabelPart(
                name,
                known.parts[f"{name}.parents"].elements,
                _integer(known, f"{name}.layer_index"),
                _integer(known, f"{name}.node"),
            )
            for name in labels
        ),
        label_sources=_label_sources(rows),
    )


def _label_sources(rows: Places) -> Places:
    # the first column is the node's own
    parents = rows[1:].tolist()
    layers = range(1, rows.shape[1] + 1)
    sources = [repeated([parents[i][row] for i, row in parent_rows(layer)]) for layer in layers]
    return np.array(sources, dtype=np.intp)


def _integer(known: Template, name: str) -> int:
    return int(known.parts[name].integers.start)


def _range(part: slice) -> range:
    return range(part.start, part.stop)
