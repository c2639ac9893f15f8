"""Labels, encoding and TreeD of a C1 output: what is hashed with SHA-256, on the host.

A 32 GiB sector has some thousand such hashes; they take less time than the way to a device.
Source: spec/porep.md sections 5, 6 and 9.
"""

from __future__ import annotations

import numpy as np

from torchzk.circuits.labels import label
from torchzk.circuits.part_paths import computed_data_path, data_nodes
from torchzk.circuits.path_faults import describe_fault
from torchzk.circuits.porep_batch import PorepBatch
from torchzk.params.fields import FR


def check_labels(batch: PorepBatch) -> None:
    """Recompute the labels of the challenged nodes, and the replica nodes from them.

    Raises:
        InputError: A label's parents are not the rows of the parents' columns, a label is not
            the row of its column, or data and label do not add up to the replica node.
    """
    _check_label_parents(batch)
    parts, layers = batch.parts, batch.c1.shape.layers
    for k, proof in enumerate(batch.elements):
        node = int(batch.nodes[k, 0])
        for i, labeling in enumerate(parts.labels):
            layer = min(i + 1, layers)
            hashed = [x.tobytes() for x in proof[labeling.parents]]
            computed = label(batch.c1.replica_id, layer, node, hashed)
            row = proof[parts.rows[0, layer - 1]].tobytes()
            if computed != row:
                batch.fail(
                    k,
                    f"{labeling.name}: the label of layer {layer} is {computed.hex()},"
                    f" replica_column_proofs.c_x.column.rows[{layer - 1}] is {row.hex()}",
                )
        key, data, replica = (
            int.from_bytes(proof[x].tobytes(), "little")
            for x in (parts.rows[0, -1], parts.data.leaf, parts.replica.leaf)
        )
        if (key + data) % FR.modulus != replica:
            batch.fail(
                k,
                "encoding_proof: the last label and the leaf of comm_d_proofs do not add up to"
                " the leaf of comm_r_last_proof",
            )


def _check_label_parents(batch: PorepBatch) -> None:
    parts, names = batch.parts, batch.c1.template.element_names
    sources = np.concatenate((parts.label_sources, parts.label_sources[-1:]))
    places = np.array([range(x.parents.start, x.parents.stop) for x in parts.labels])
    wrong = (batch.elements[:, places] != batch.elements[:, sources]).any(axis=-1)
    if wrong.any():
        k, i, j = np.unravel_index(int(wrong.argmax()), wrong.shape)
        batch.fail(int(k), f"{names[places[i, j]]}: is not {names[sources[i, j]]}")


def check_data_paths(batch: PorepBatch) -> None:
    """Hash every path of TreeD.

    Raises:
        InputError: One does not lead to comm_d; names the level.
    """
    path, elements, integers = batch.parts.data, batch.elements, batch.integers
    for k in range(len(elements)):
        if data_nodes(elements[k], integers[k], path)[-1] != batch.c1.comm_d:
            own = batch.partition_of(k)
            paths = [
                computed_data_path(elements[i], integers[i], path)
                for i in range(own.start, own.stop)
            ]
            root = int.from_bytes(batch.c1.comm_d, "little")
            batch.fail(k, f"{path.name}: {describe_fault(paths, k - own.start, root)}")
