"""Vanilla proofs of PoSt: what a sector shows of its TreeR, typed and compact.

Field elements stay in their 32 little-endian bytes, side by side, until a device wants them.
Source: spec/post_update.md section 3, spec/porep.md section 8.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from torchzk.circuits.bincode import Reader
from torchzk.circuits.json_input import Node
from torchzk.circuits.layouts import ELEMENT_BYTES, PATH_NAMES, VARIANTS, not_canonical
from torchzk.circuits.sectors import MAX_SECTOR_NUMBER, TreeShape
from torchzk.errors import InputError

_SECTOR = "vanilla_proof.sectors[0]"


@dataclass(frozen=True)
class MerkleProof:
    """A path from a leaf to the root. Levels run from the leaf upwards."""

    leaf: bytes
    root: bytes
    siblings: bytes
    """`arity - 1` elements a level, in order with the running node removed."""
    indices: bytes
    """A byte a level: the running node's place among its siblings."""


@dataclass(frozen=True)
class SectorProof:
    """FallbackPoStSectorProof: one sector's commitments and a Merkle proof a challenge."""

    sector_id: int
    comm_r: bytes
    comm_c: bytes
    comm_r_last: bytes
    paths: tuple[MerkleProof, ...]


def sector_from_json(node: Node, tree: TreeShape, n_challenges: int) -> SectorProof:
    """Read the serde layout.

    Raises:
        InputError: The layout, a count or a field element is not what `tree` and
            `n_challenges` ask for; names the place.
    """
    top = node.fields(("sector_id", "comm_r", "vanilla_proof"))
    (body,) = top["vanilla_proof"].fields(("sectors",))["sectors"].items(1)
    sector = body.fields(("inclusion_proofs", "comm_c", "comm_r_last"))
    proofs = sector["inclusion_proofs"].items(n_challenges)
    proof = SectorProof(
        sector_id=top["sector_id"].integer(MAX_SECTOR_NUMBER),
        comm_r=top["comm_r"].bytes32(),
        comm_c=sector["comm_c"].bytes32(),
        comm_r_last=sector["comm_r_last"].bytes32(),
        paths=tuple(_merkle_from_json(item, tree) for item in proofs),
    )
    _check_canonical(proof, tree, f"{node.document}: {node.where}")
    return proof


def sector_from_base64(node: Node, tree: TreeShape, n_challenges: int) -> SectorProof:
    """Read base64 of bincode; otherwise as `sector_from_json`."""
    return sector_from_bincode(node.base64(), tree, n_challenges, f"{node.document}: {node.where}")


def sector_from_bincode(
    data: bytes, tree: TreeShape, n_challenges: int, document: str
) -> SectorProof:
    """Read bincode; otherwise as `sector_from_json`. Errors call the bytes `document`."""
    reader = Reader(data, document)
    sector_id = reader.u64("sector_id")
    comm_r = reader.take(ELEMENT_BYTES, "comm_r")
    reader.count(1, "vanilla_proof.sectors")
    reader.count(n_challenges, f"{_SECTOR}.inclusion_proofs")
    paths = tuple(_merkle_from_bincode(reader, tree, i) for i in range(n_challenges))
    reader.inside = _SECTOR
    comm_c = reader.take(ELEMENT_BYTES, "comm_c")
    comm_r_last = reader.take(ELEMENT_BYTES, "comm_r_last")
    reader.end()
    proof = SectorProof(sector_id, comm_r, comm_c, comm_r_last, paths)
    _check_canonical(proof, tree, document)
    return proof


def _merkle_from_json(node: Node, tree: TreeShape) -> MerkleProof:
    variant = _variant(tree)
    names = _part_names(tree)
    data = (
        node.fields(("data",))["data"].fields((variant,))[variant].fields((*names, "root", "leaf"))
    )
    siblings, indices = [], []
    for name, arities in zip(names, tree.parts, strict=True):
        levels = data[name].fields(("path",))["path"].items(len(arities))
        for level, arity in zip(levels, arities, strict=True):
            fields = level.fields(("hashes", "index"))
            siblings.append(fields["hashes"].many_bytes32(arity - 1))
            indices.append(fields["index"].integer(arity - 1))
    leaf, root = data["leaf"].bytes32(), data["root"].bytes32()
    return MerkleProof(leaf, root, b"".join(siblings), bytes(indices))


def _merkle_from_bincode(reader: Reader, tree: TreeShape, challenge: int) -> MerkleProof:
    single = len(tree.parts) == 1
    variant = _variant(tree)
    reader.inside = f"{_SECTOR}.inclusion_proofs[{challenge}].data"
    number = reader.u32("variant", len(VARIANTS))
    if VARIANTS[number] != variant:
        reader.position -= 4
        reader.fail("variant", f"must be {variant}, is {VARIANTS[number]}")
    reader.inside += f".{variant}"
    # a proof of one part has its path last, the others have theirs first
    root = reader.take(ELEMENT_BYTES, "root") if single else b""
    leaf = reader.take(ELEMENT_BYTES, "leaf") if single else b""
    siblings, indices = [], []
    names = iter(_level_names(tree))
    for part, arities in zip(_part_names(tree), tree.parts, strict=True):
        reader.count(len(arities), f"{part}.path")
        for arity in arities:
            hashes, index = next(names)
            reader.count(arity - 1, hashes)
            siblings.append(reader.take((arity - 1) * ELEMENT_BYTES, hashes))
            indices.append(reader.u64(index, arity))
    if not single:
        root = reader.take(ELEMENT_BYTES, "root")
        leaf = reader.take(ELEMENT_BYTES, "leaf")
    return MerkleProof(leaf, root, b"".join(siblings), bytes(indices))


def _variant(tree: TreeShape) -> str:
    return VARIANTS[len(tree.parts) - 1]


def _part_names(tree: TreeShape) -> tuple[str, ...]:
    return PATH_NAMES[: len(tree.parts)] if len(tree.parts) > 1 else ("path",)


@lru_cache
def _level_names(tree: TreeShape) -> tuple[tuple[str, str], ...]:
    """Dotted names of `hashes` and `index` of each level, inside the Merkle proof."""
    levels = [
        f"{part}.path[{i}]"
        for part, arities in zip(_part_names(tree), tree.parts, strict=True)
        for i in range(len(arities))
    ]
    return tuple((f"{level}.hashes", f"{level}.index") for level in levels)


def _check_canonical(proof: SectorProof, tree: TreeShape, place: str) -> None:
    """Raise `InputError` for the first element of r or above."""
    commitments = [proof.comm_r, proof.comm_c, proof.comm_r_last]
    elements = commitments + [x for p in proof.paths for x in (p.leaf, p.root, p.siblings)]
    octets = np.frombuffer(b"".join(elements), dtype=np.uint8)
    bad = not_canonical(octets.reshape(-1, ELEMENT_BYTES))
    if bad is not None:
        name = _element_name(bad, tree)
        raise InputError(f"{place}.{name}: is no field element: its value is r or more")


def _element_name(k: int, tree: TreeShape) -> str:
    """Dotted name of element `k` in the order of `_check_canonical`."""
    if k < 3:
        return ("comm_r", f"{_SECTOR}.comm_c", f"{_SECTOR}.comm_r_last")[k]
    names = ["leaf", "root"] + [
        f"{hashes}[{i}]"
        for (hashes, _), arity in zip(_level_names(tree), tree.arities, strict=True)
        for i in range(arity - 1)
    ]
    challenge, j = divmod(k - 3, len(names))
    return f"{_SECTOR}.inclusion_proofs[{challenge}].data.{_variant(tree)}.{names[j]}"
