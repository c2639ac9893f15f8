"""Whether a C1 output opens the nodes it must: every node, layer and place in a path of it.

All of them follow from replica_id, seed, comm_r and the registered proof. Source: spec/porep.md
sections 7 and 9.
"""

from __future__ import annotations

import numpy as np

from torchzk.circuits.layouts import Integers
from torchzk.circuits.part_paths import level_of, put_places
from torchzk.circuits.porep_batch import PorepBatch


def check_nodes(batch: PorepBatch) -> None:
    """Compare all integers of the proofs with what they must be.

    Raises:
        InputError: One of them differs; says which.
    """
    expected = _expected(batch)
    wrong = batch.integers != expected
    if not wrong.any():
        return
    names, parts = batch.c1.template.integer_names, batch.parts
    challenged, *above = parts.labels[0].node, *parts.column_nodes[1:]
    for places, say in (([challenged], _other_challenge), (above, _other_parent)):
        if wrong[:, places].any():
            row, place = divmod(int(wrong[:, places].argmax()), len(places))
            k = places[place]
            batch.fail(
                row, say(batch, names[k], int(batch.integers[row, k]), int(expected[row, k]))
            )
    row, k = divmod(int(wrong.argmax()), wrong.shape[1])
    got, must = int(batch.integers[row, k]), int(expected[row, k])
    found = level_of(k, (parts.data, parts.replica, *parts.columns))
    if found is not None:
        path, level = found
        batch.fail(
            row, f"{path.name}: level {level}: the path has index {got}, its node has {must} there"
        )
    batch.fail(row, f"{names[k]}: is {got}, must be {must}")


def _other_challenge(batch: PorepBatch, name: str, got: int, must: int) -> str:
    return (
        f"{name}: is {got}, the challenge is node {must}; are replica_id, seed and registered"
        f" proof ({batch.c1.registered.name}) those of the sector?"
    )


def _other_parent(batch: PorepBatch, name: str, got: int, must: int) -> str:
    return (
        f"{name}: is {got}, the parent is node {must}; is {batch.c1.registered.name} what the"
        " sector was sealed as?"
    )


def _expected(batch: PorepBatch) -> Integers:
    shape, parts, nodes = batch.c1.shape, batch.parts, batch.nodes
    out = np.empty_like(batch.integers)
    put_places(out, parts.data, nodes[:, 0], (2,) * shape.data_levels)
    put_places(out, parts.replica, nodes[:, 0], shape.arities)
    for i, column in enumerate(parts.columns):
        put_places(out, column, nodes[:, i], shape.arities)
        out[:, parts.column_nodes[i]] = nodes[:, i]
    for i, label in enumerate(parts.labels):
        # the encoding proof is of the last layer again
        out[:, label.layer] = min(i + 1, shape.layers)
        out[:, label.node] = nodes[:, 0]
    return out
