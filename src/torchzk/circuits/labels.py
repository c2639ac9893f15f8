"""Labels of the stacked graph: what a node of a layer holds. Source: spec/porep.md section 5."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from itertools import cycle, islice
from typing import TypeVar

from torchzk.circuits.porep_shapes import DRG_PARENTS, LABEL_PARENTS, PARENTS
from torchzk.circuits.replica_id import clear_top_bits

T = TypeVar("T")


def parent_rows(layer: int) -> list[tuple[int, int]]:
    """Of which parents' columns, and which rows of them, the labels of a layer are the hash of.

    Columns 0 to 5 are those of the base graph; both numbers count from 0, `layer` from 1.
    """
    rows = [(column, layer - 1) for column in range(DRG_PARENTS)]
    if layer > 1:
        rows += [(column, layer - 2) for column in range(DRG_PARENTS, PARENTS)]
    return rows


def repeated(parents: Sequence[T]) -> list[T]:
    """What stands for the parents of a label, as they are hashed: over and over, to 37 of them."""
    return list(islice(cycle(parents), LABEL_PARENTS))


def label(replica_id: bytes, layer: int, node: int, parent_labels: Sequence[bytes]) -> bytes:
    """The label of one node, a canonical little-endian Fr below 2^254.

    Args:
        replica_id: 32 bytes.
        layer: From 1 on.
        node: Its number; node 0 has no parents, and any given are ignored.
        parent_labels: 32 bytes each: those of its 6 DRG parents in the same layer, then, above
            layer 1, those of its 8 expander parents in the layer before.
    """
    head = replica_id + layer.to_bytes(4, "big") + node.to_bytes(8, "big") + bytes(20)
    return clear_top_bits(hashlib.sha256(head + b"".join(hashed(node, parent_labels))).digest())


def hashed(node: int, parent_labels: Sequence[bytes]) -> list[bytes]:
    """The parent labels of a node as they are hashed; none for node 0."""
    return repeated(parent_labels) if node else []
