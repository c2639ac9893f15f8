"""Points and keys that tests of the formats share."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import count, zip_longest
from pathlib import Path

import torch

from torchzk.groth16.encoding import square_root
from torchzk.groth16.keys import QUERIES, MemoryKey, QueryLengths, VerifyingKey, shapes_of
from torchzk.groth16.proofs import Proof
from torchzk.groth16.streams import Part, Parts, steps
from torchzk.groth16.uploads import Uploads
from torchzk.groth16.vk_file import load_vk
from torchzk.params.curves import G1, G2, Curve, Point
from torchzk.params.host_points import scalar_mul
from torchzk.params.integers import coordinate_mul, in_subgroup


@dataclass(frozen=True)
class Case:
    """A proof that must hold, with the key and the inputs it is for."""

    name: str
    vk: VerifyingKey
    proof: Proof
    inputs: list[int]


class Travelling(MemoryKey):
    """A key whose parts come through the ring, each buffer spoiled before it is filled."""

    def parts(
        self, order: Sequence[Part], device: torch.device | str, slots: int
    ) -> AbstractContextManager[Parts]:
        def fill(number: int, rows: torch.Tensor) -> None:
            part = order[number]
            rows.fill_(-1)
            rows.copy_(self.query(part.query, part.start, part.stop, device))

        return Uploads(shapes_of(self.lengths, order), torch.device(device), fill, slots)


def mixed_order(lengths: QueryLengths) -> list[Part]:
    """All points in parts of several lengths, no two of a query together."""
    cut = {
        name: [Part(name, start, stop) for start, stop in steps(lengths.of(name), 3 + i)]
        for i, name in enumerate(QUERIES)
    }
    return [part for parts in zip_longest(*cut.values()) for part in parts if part is not None]


def multiple(curve: Curve, k: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """k times the generator, which is finite."""
    point = scalar_mul(curve, k, curve.generator)
    assert point is not None
    return point


def points_of_x(curve: Curve, first: int = 0) -> list[Point]:
    """The points of the first x from `first` on that has any."""
    p = curve.field.modulus
    for i in count(first):
        x = (i, *[0] * (curve.degree - 1))
        cube = coordinate_mul(coordinate_mul(x, x, p), x, p)
        y = square_root(tuple((c + b) % p for c, b in zip(cube, curve.b, strict=True)), p)
        if y is not None:
            return [(x, y), (x, tuple(-c % p for c in y))]
    raise AssertionError


def outsider(curve: Curve, first: int = 0) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """A point of the curve outside its subgroup; the default one of G1, (0, 2), has order 3."""
    point = points_of_x(curve, first)[0]
    assert point is not None
    assert not in_subgroup(curve, point)
    return point


def small_vk(n_inputs: int = 3) -> VerifyingKey:
    """A key whose points are distinct small multiples of the generators."""
    return VerifyingKey(
        alpha_g1=multiple(G1, 2),
        beta_g1=multiple(G1, 3),
        beta_g2=multiple(G2, 3),
        gamma_g2=multiple(G2, 5),
        delta_g1=multiple(G1, 7),
        delta_g2=multiple(G2, 7),
        ic=tuple(multiple(G1, 11 + i) for i in range(n_inputs)),
    )


def reference_cases(golden: Path) -> list[Case]:
    """The proofs of 2 KiB sectors under dev keys."""
    folder = golden / "groth16"
    keys = {k: load_vk(folder / f"{k}_2048.vk") for k in ("porep", "winning", "window", "update")}
    return [
        Case(
            p["name"],
            keys[p["kind"]],
            Proof.from_bytes(bytes.fromhex(p["proof"])),
            [int.from_bytes(bytes.fromhex(x), "little") for x in p["public_inputs"]],
        )
        for p in json.loads((folder / "proofs_2kib.json").read_text())["proofs"]
    ]
