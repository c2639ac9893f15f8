"""Vanilla proofs as the compact JSON that serde writes. Source: spec/porep.md section 8."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from torchzk.circuits.layouts import ELEMENT_BYTES, PATH_NAMES, VARIANTS
from torchzk.circuits.sectors import TreeShape
from torchzk.circuits.vanilla import MerkleProof

Value = bytes | str | int | None | Sequence["Value"] | Mapping[str, "Value"]
"""What is written: `bytes` stand for a list of numbers."""

_NUMBERS = tuple(map(str, range(256)))


class CompactJson:
    """Writes values without spaces. Keys stay in order unless they are to be sorted."""

    def __init__(self, *, sort_keys: bool = False) -> None:
        self._sort_keys = sort_keys
        # most elements occur many times
        self._known: dict[bytes, str] = {}

    def text(self, value: Value) -> str:
        """One value."""
        if isinstance(value, bytes):
            known = self._known.get(value)
            if known is None:
                known = f"[{','.join(_NUMBERS[b] for b in value)}]"
                self._known[value] = known
            return known
        if isinstance(value, Mapping):
            keys = sorted(value) if self._sort_keys else value
            return "{" + ",".join(f'"{key}":{self.text(value[key])}' for key in keys) + "}"
        if value is None or isinstance(value, str | int):
            return json.dumps(value)
        return "[" + ",".join(map(self.text, value)) + "]"


def merkle_value(proof: MerkleProof, tree: TreeShape | None) -> Value:
    """A Merkle proof in a Poseidon tree of shape `tree`, or in a binary one if there is none."""
    parts = tree.parts if tree else ((2,) * len(proof.indices),)
    levels = iter(_levels(proof, [arity for part in parts for arity in part]))
    paths = [{"path": [next(levels) for _ in part]} for part in parts]
    ends = {"root": proof.root, "leaf": proof.leaf}
    if len(paths) == 1:
        return {"data": {VARIANTS[0]: {**ends, "path": paths[0]}}}
    named = dict(zip(PATH_NAMES, paths, strict=False))
    return {"data": {VARIANTS[len(paths) - 1]: {**named, **ends}}}


def _levels(proof: MerkleProof, arities: Sequence[int]) -> list[Value]:
    levels: list[Value] = []
    start = 0
    for arity, index in zip(arities, proof.indices, strict=True):
        stop = start + (arity - 1) * ELEMENT_BYTES
        steps = range(start, stop, ELEMENT_BYTES)
        hashes = [proof.siblings[i : i + ELEMENT_BYTES] for i in steps]
        levels.append({"hashes": hashes, "index": index})
        start = stop
    return levels
