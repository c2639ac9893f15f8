"""Job files of PoSt: what to prove, typed and checked against the circuit.

Source: spec/interface.md "Job files". What a job says is consistent once it is loaded; whether
its vanilla proofs hold is the question of `vanilla_checks`.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from torchzk.circuits.circuit import Source, document_of
from torchzk.circuits.job_head import check_head, element, optional_integer
from torchzk.circuits.json_input import Node, parse_json, read_file
from torchzk.circuits.miner_id import MAX_MINER_ID
from torchzk.circuits.post_shapes import PostShape
from torchzk.circuits.registered import PostKind, RegisteredPost, default_post, read_post
from torchzk.circuits.vanilla import SectorProof, sector_from_base64, sector_from_json

_REQUIRED = ("kind", "sector_size", "miner_id", "randomness", "vanilla_proofs")
_OPTIONAL: dict[PostKind, tuple[str, ...]] = {
    "winning": ("registered_proof", "sector_number"),
    "window": ("registered_proof", "sector_number", "partition_index"),
}
_CLEAR_TOP_BITS = "; callers clear the top two bits (byte 31 &= 0x3f)"
# a partition holds thousands of sectors and an actor has at most a few thousand partitions
_MAX_PARTITION = (1 << 32) - 1


@dataclass(frozen=True)
class PostJob:
    """Everything that winning or window PoSt of some sectors is made from."""

    shape: PostShape
    miner_id: int
    registered: RegisteredPost
    first_partition: int
    """Index of the partition that the first sector is in: `partition_index`, or 0."""
    randomness: bytes
    """32 bytes, a canonical little-endian Fr."""
    sectors: tuple[SectorProof, ...]
    """In ascending order of sector id, without padding."""

    @property
    def kind(self) -> PostKind:
        return self.shape.kind

    @property
    def sector_size(self) -> int:
        """Bytes."""
        return self.shape.sector.sector_size

    @property
    def n_partitions(self) -> int:
        return -(-len(self.sectors) // self.shape.sectors_per_partition)

    def partition(self, index: int) -> tuple[SectorProof, ...]:
        """The sectors of the job's partition `index`, counted from 0; the last one may be short."""
        n = self.shape.sectors_per_partition
        return self.sectors[index * n : (index + 1) * n]


def load_post_job(source: Source, shape: PostShape) -> PostJob:
    """Read the job of a PoSt that a circuit is to prove.

    Args:
        source: A job file, its bytes, or the parsed object.
        shape: The circuit; the job must be for it.

    Raises:
        InputError: The file cannot be read, or breaks a rule of the format. Names the place.
    """
    document = document_of(source)
    data = read_file(source) if isinstance(source, Path) else source
    node = parse_json(data, document) if isinstance(data, bytes) else Node(data, document)
    sector_size = shape.sector.sector_size
    check_head(node, shape.kind, shape.sector)
    fields = node.fields(_REQUIRED, _OPTIONAL[shape.kind])
    miner_id = fields["miner_id"].integer(MAX_MINER_ID)
    registered = (
        read_post(fields["registered_proof"], shape.kind, sector_size)
        if "registered_proof" in fields
        else default_post(shape.kind, sector_size)
    )
    first_partition = optional_integer(fields, "partition_index", _MAX_PARTITION) or 0
    randomness = element(fields["randomness"], _CLEAR_TOP_BITS)
    limit = shape.sectors_per_partition if "partition_index" in fields else None
    sectors = _sectors(fields["vanilla_proofs"], shape, limit)
    if "sector_number" in fields:
        _check_sector_number(fields["sector_number"], sectors)
    return PostJob(shape, miner_id, registered, first_partition, randomness, sectors)


def _sectors(node: Node, shape: PostShape, limit: int | None) -> tuple[SectorProof, ...]:
    """The vanilla proofs, at most `limit` of them if given."""
    proofs = list(node.items(1 if shape.kind == "winning" else None))
    if not proofs:
        node.fail("is empty: a job proves at least one sector")
    if limit is not None and len(proofs) > limit:
        node.fail(f"one partition holds at most {limit} sectors, has {len(proofs)}")
    sectors = []
    for proof in proofs:
        read = sector_from_base64 if isinstance(proof.value, str) else sector_from_json
        sectors.append(read(proof, shape.sector.tree_r, shape.challenges_per_sector))
    for i, (a, b) in enumerate(pairwise(sectors), start=1):
        if a.sector_id >= b.sector_id:
            proofs[i].fail(
                f"sector {b.sector_id} comes after sector {a.sector_id}:"
                " sector ids must be strictly ascending"
            )
    return tuple(sectors)


def _check_sector_number(node: Node, sectors: tuple[SectorProof, ...]) -> None:
    number = node.integer((1 << 64) - 1)
    if all(sector.sector_id != number for sector in sectors):
        node.fail(f"sector {number} is not among the vanilla proofs")
