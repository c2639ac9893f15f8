"""The vanilla proof of one PoRep challenge as a layout, and where its pieces are.

Source: spec/porep.md section 8.
"""

from __future__ import annotations

from functools import lru_cache

from torchzk.circuits.layouts import (
    ELEMENT,
    Integer,
    Layout,
    Nothing,
    Sequence,
    Struct,
    merkle_proof,
)
from torchzk.circuits.porep_shapes import (
    DRG_PARENTS,
    EXPANDER_PARENTS,
    LABEL_PARENTS,
    StackedShape,
)


@lru_cache(maxsize=16)
def challenge_layout(shape: StackedShape) -> Layout:
    """PROOF of the specification: everything about one challenge."""
    n_nodes, tree = shape.sector.n_nodes, shape.sector.tree_r
    rows = Sequence(ELEMENT, shape.layers)
    column = Struct(
        (
            ("column", Struct((("index", Integer(4, n_nodes)), ("rows", rows), ("_h", Nothing())))),
            ("inclusion_proof", merkle_proof(tree)),
        )
    )
    columns = Struct(
        (
            ("c_x", column),
            ("drg_parents", Sequence(column, DRG_PARENTS)),
            ("exp_parents", Sequence(column, EXPANDER_PARENTS)),
        )
    )
    labeling = Struct(
        (
            ("parents", Sequence(ELEMENT, LABEL_PARENTS)),
            ("layer_index", Integer(4, shape.layers + 1)),
            ("node", Integer(8, n_nodes)),
        )
    )
    return Struct(
        (
            ("comm_d_proofs", merkle_proof(None, shape.data_levels)),
            ("comm_r_last_proof", merkle_proof(tree)),
            ("replica_column_proofs", columns),
            ("labeling_proofs", Sequence(labeling, shape.layers)),
            ("encoding_proof", labeling),
        )
    )
