"""Partition proofs of a sector update, typed: as JSON, or as bincode in base64.

Source: spec/post_update.md section 8.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from torchzk.circuits.bincode import Reader
from torchzk.circuits.json_input import Node
from torchzk.circuits.layout_bincode import read_values as read_bincode
from torchzk.circuits.layout_json import Cut
from torchzk.circuits.layout_json import read_values as read_json
from torchzk.circuits.layouts import (
    ELEMENT,
    Integers,
    Layout,
    Octets,
    Sequence,
    Struct,
    Values,
    merkle_proof,
    not_canonical,
    template,
)
from torchzk.circuits.part_paths import MerklePart, merkle_part
from torchzk.circuits.update_shapes import UpdateShape


@lru_cache(maxsize=16)
def partition_layout(shape: UpdateShape) -> Layout:
    """PartitionProof of the specification."""
    tree_r = merkle_proof(shape.sector.tree_r)
    challenge = Struct(
        (
            ("proof_r_old", tree_r),
            ("proof_d_new", merkle_proof(None, shape.node_bits)),
            ("proof_r_new", tree_r),
        )
    )
    return Struct(
        (
            ("comm_c", ELEMENT),
            ("apex_leafs", Sequence(ELEMENT, shape.n_apex_leaves)),
            ("challenge_proofs", Sequence(challenge, shape.n_challenges)),
        )
    )


@dataclass(frozen=True)
class UpdateParts:
    """Where the pieces of a partition proof are among its elements and integers."""

    comm_c: int
    apex_leaves: slice
    r_old: tuple[MerklePart, ...]
    """A Merkle proof a challenge."""
    d_new: tuple[MerklePart, ...]
    r_new: tuple[MerklePart, ...]


@lru_cache(maxsize=16)
def update_parts(shape: UpdateShape) -> UpdateParts:
    """The pieces, found by their names once."""
    known = template(partition_layout(shape))

    def proofs(tree: str) -> tuple[MerklePart, ...]:
        return tuple(
            merkle_part(known, f"challenge_proofs[{i}].proof_{tree}")
            for i in range(shape.n_challenges)
        )

    return UpdateParts(
        comm_c=known.parts["comm_c"].elements.start,
        apex_leaves=known.parts["apex_leafs"].elements,
        r_old=proofs("r_old"),
        d_new=proofs("d_new"),
        r_new=proofs("r_new"),
    )


def read_partitions(node: Node, shape: UpdateShape, cut: Cut) -> tuple[Octets, Integers]:
    """The proofs of all partitions.

    Args:
        node: A list with an object or a base64 text a partition.
        shape: The circuit.
        cut: What was cut out of the text that `node` is from.

    Returns:
        Elements, canonical, uint8 `[p, n, 32]`, and integers, int64 `[p, m]`.

    Raises:
        InputError: A layout, a count or an element is not what `shape` asks for; names the place.
    """
    items = list(node.items(shape.n_partitions))
    values = [_read_partition(item, shape, cut) for item in items]
    elements = np.stack([v.elements for v in values])
    bad = not_canonical(elements)
    if bad is not None:
        partition, k = divmod(bad, elements.shape[1])
        name = template(partition_layout(shape)).element_names[k]
        items[partition].fail(f"{name}: is no field element: its value is r or more")
    return elements, np.stack([v.integers for v in values])


def _read_partition(node: Node, shape: UpdateShape, cut: Cut) -> Values:
    layout = partition_layout(shape)
    if not isinstance(node.value, str) or cut.refers(node.value):
        return read_json(node, layout, cut)
    reader = Reader(node.base64(), f"{node.document}: {node.where}")
    values = read_bincode(reader, layout, [""])
    reader.end()
    return Values(values.elements[0], values.integers[0])
