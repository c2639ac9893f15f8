"""Jobs of sector updates, typed and checked against the circuit.

Source: spec/interface.md "Job files", spec/post_update.md sections 8 and 9.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

from torchzk.circuits.circuit import Source, document_of
from torchzk.circuits.job_head import check_head, element, optional_integer
from torchzk.circuits.json_input import Node, read_file
from torchzk.circuits.layout_json import Cut, read_text
from torchzk.circuits.layouts import Integers, Octets
from torchzk.circuits.miner_id import MAX_MINER_ID
from torchzk.circuits.registered import REGISTERED_UPDATES, RegisteredUpdate, read_update
from torchzk.circuits.sectors import MAX_SECTOR_NUMBER
from torchzk.circuits.update import public_inputs
from torchzk.circuits.update_proof import partition_layout, read_partitions
from torchzk.circuits.update_shapes import UpdateShape

_COMMITMENTS = ("comm_r_old", "comm_r_new", "comm_d_new")
_REQUIRED = ("kind", "sector_size", "miner_id", *_COMMITMENTS, "vanilla_proofs")
_OPTIONAL = ("registered_proof", "sector_number")


@dataclass(frozen=True, eq=False)
class UpdateJob:
    """Everything that the proof of a sector update is made from: `p` partitions."""

    shape: UpdateShape
    miner_id: int
    registered: RegisteredUpdate | None
    """None for sizes that exist for tests only."""
    comm_r_old: bytes
    comm_r_new: bytes
    comm_d_new: bytes
    elements: Octets
    """uint8 `[p, n, 32]`: canonical field elements in the order of `partition_layout`."""
    integers: Integers
    """int64 `[p, m]`"""
    sector_number: int | None = None

    @property
    def kind(self) -> Literal["update"]:
        return "update"

    @property
    def sector_size(self) -> int:
        """Bytes."""
        return self.shape.sector.sector_size

    @property
    def n_partitions(self) -> int:
        return self.shape.n_partitions


def load_update_job(source: Source, shape: UpdateShape) -> UpdateJob:
    """Read the job of an update that a circuit is to prove.

    Args:
        source: A job file, its bytes, or the parsed object.
        shape: The circuit.

    Raises:
        InputError: The file cannot be read, or breaks a rule of the format. Names the place.
    """
    document = document_of(source)
    data = read_file(source) if isinstance(source, Path) else source
    if not isinstance(data, bytes):
        return _job(shape, Node(data, document), Cut())
    return read_text(data, document, partition_layout(shape), partial(_job, shape))


def _job(shape: UpdateShape, node: Node, cut: Cut) -> UpdateJob:
    check_head(node, "update", shape.sector)
    fields = node.fields(_REQUIRED, _OPTIONAL)
    size = shape.sector.sector_size
    registered = next((u for u in REGISTERED_UPDATES if u.sector_size == size), None)
    if "registered_proof" in fields:
        registered = read_update(fields["registered_proof"], size)
    comm_r_old, comm_r_new, comm_d_new = (element(fields[name]) for name in _COMMITMENTS)
    elements, integers = read_partitions(fields["vanilla_proofs"], shape, cut)
    return UpdateJob(
        shape=shape,
        miner_id=fields["miner_id"].integer(MAX_MINER_ID),
        registered=registered,
        comm_r_old=comm_r_old,
        comm_r_new=comm_r_new,
        comm_d_new=comm_d_new,
        elements=elements,
        integers=integers,
        sector_number=optional_integer(fields, "sector_number", MAX_SECTOR_NUMBER),
    )


def update_public_inputs(job: UpdateJob, partition: int) -> list[int]:
    """The public inputs of a partition, without ONE, canonical."""
    commitments = (job.comm_r_old, job.comm_d_new, job.comm_r_new)
    numbers = (int.from_bytes(raw, "little") for raw in commitments)
    return public_inputs(job.shape, partition, *numbers)
