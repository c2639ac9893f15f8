"""The circuits there are, and the facts about them. Source: spec/post_update.md section 1."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import lru_cache

from torchzk.backends import Backend
from torchzk.circuits.post import assign, n_public_inputs, post_r1cs
from torchzk.circuits.post_shapes import PostShape, post_shape
from torchzk.circuits.post_slots import PostSlots
from torchzk.circuits.registered import PostKind
from torchzk.circuits.sectors import SECTOR_SHAPES
from torchzk.errors import ConfigError
from torchzk.groth16.r1cs import Assignment, R1cs

KINDS: tuple[PostKind, ...] = ("winning", "window")


@dataclass(frozen=True)
class Circuit:
    """One circuit: what it proves, of which sectors, in what shape."""

    shape: PostShape

    @property
    def kind(self) -> PostKind:
        return self.shape.kind

    @property
    def sector_size(self) -> int:
        """Bytes."""
        return self.shape.sector.sector_size

    @property
    def name(self) -> str:
        """E.g. `window-2KiB`."""
        return f"{self.kind}-{self.shape.sector.name}"

    @property
    def n_inputs(self) -> int:
        """Public inputs, ONE included."""
        return n_public_inputs(self.shape)

    def partitions(self, n_sectors: int) -> int:
        """Proofs of 192 bytes that a job of so many sectors takes."""
        return -(-n_sectors // self.shape.sectors_per_partition)

    @property
    def cache_identifier(self) -> str:
        """File name stem of the official parameters, without the version. spec/groth16.md 10."""
        tree = self.shape.sector.tree_r
        text = (
            f"FallbackPoSt::PublicParams{{sector_size: {self.sector_size}, "
            f"challenge_count: {self.shape.n_challenges}, sector_count: {self.shape.n_slots}}}"
        )
        digest = hashlib.sha256(text.encode()).hexdigest()
        arities = f"8-{tree.sub}-{tree.top}"
        return f"proof-of-spacetime-fallback-merkletree-poseidon_hasher-{arities}-{digest}"

    def r1cs(self) -> R1cs:
        """The constraint system, recorded once."""
        return _r1cs(self.shape)

    def assignment(self, backend: Backend, slots: PostSlots) -> Assignment:
        """The value of every variable for one partition; see `post.assign`."""
        return assign(backend, self.shape, slots)


@lru_cache(maxsize=8)
def _r1cs(shape: PostShape) -> R1cs:
    return post_r1cs(shape)


def get_circuit(kind: str, sector_size: int) -> Circuit:
    """The circuit of a kind and a sector size in bytes.

    Raises:
        ConfigError: There is none; the message names those there are.
    """
    known = next((k for k in KINDS if k == kind), None)
    if known is None:
        coming = ", which is to come" if kind in ("porep", "update") else ""
        raise ConfigError(f"no circuit {kind!r}{coming}; there are {', '.join(KINDS)}")
    if sector_size not in SECTOR_SHAPES:
        sizes = ", ".join(f"{s.sector_size} ({s.name})" for s in SECTOR_SHAPES.values())
        raise ConfigError(f"no {kind} circuit of {sector_size} byte sectors; there are {sizes}")
    return Circuit(post_shape(known, sector_size))
