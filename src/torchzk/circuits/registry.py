"""The circuits there are, and the facts about them. Source: spec/post_update.md section 1."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import lru_cache

from torchzk.backends import Backend
from torchzk.circuits.post import PostShape, assign
from torchzk.circuits.post_slots import PostSlots
from torchzk.circuits.registered import PostKind
from torchzk.circuits.sectors import SECTOR_SHAPES, SectorShape
from torchzk.errors import ConfigError
from torchzk.groth16.r1cs import Assignment, R1cs

KINDS: tuple[PostKind, ...] = ("winning", "window")
_WINNING_CHALLENGES = 66
_WINDOW_CHALLENGES = 10
_WINDOW_SECTORS = {"32GiB": 2349, "64GiB": 2300}
_WINDOW_SECTORS_SMALL = 2


@dataclass(frozen=True)
class Circuit:
    """One circuit: what it proves, of which sectors, in what shape."""

    kind: PostKind
    sector: SectorShape
    shape: PostShape

    @property
    def name(self) -> str:
        """E.g. `window-2KiB`."""
        return f"{self.kind}-{self.sector.name}"

    @property
    def sector_size(self) -> int:
        """Bytes."""
        return self.sector.sector_size

    @property
    def n_inputs(self) -> int:
        """Public inputs, ONE included."""
        return self.shape.n_inputs

    @property
    def sectors_per_partition(self) -> int:
        """Sectors one proof of 192 bytes covers."""
        return 1 if self.kind == "winning" else self.shape.slots

    @property
    def challenges_per_sector(self) -> int:
        """Inclusion proofs a vanilla proof has."""
        return self.shape.slots if self.kind == "winning" else self.shape.challenges

    def partitions(self, n_sectors: int) -> int:
        """Proofs that a job of so many sectors takes."""
        return -(-n_sectors // self.sectors_per_partition)

    @property
    def cache_identifier(self) -> str:
        """File name stem of the official parameters, without the version. spec/groth16.md 10."""
        tree = self.sector.tree_r
        text = (
            f"FallbackPoSt::PublicParams{{sector_size: {self.sector_size}, "
            f"challenge_count: {self.shape.challenges}, sector_count: {self.shape.slots}}}"
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
    return shape.r1cs()


def get_circuit(kind: str, sector_size: int) -> Circuit:
    """The circuit of a kind and a sector size in bytes.

    Raises:
        ConfigError: There is none; the message names those there are.
    """
    known = next((k for k in KINDS if k == kind), None)
    if known is None:
        coming = ", which is to come" if kind in ("porep", "update") else ""
        raise ConfigError(f"no circuit {kind!r}{coming}; there are {', '.join(KINDS)}")
    sector = SECTOR_SHAPES.get(sector_size)
    if sector is None:
        sizes = ", ".join(f"{s.sector_size} ({s.name})" for s in SECTOR_SHAPES.values())
        raise ConfigError(f"no {kind} circuit of {sector_size} byte sectors; there are {sizes}")
    if known == "winning":
        slots, challenges = _WINNING_CHALLENGES, 1
    else:
        slots = _WINDOW_SECTORS.get(sector.name, _WINDOW_SECTORS_SMALL)
        challenges = _WINDOW_CHALLENGES
    return Circuit(known, sector, PostShape(slots, challenges, sector.tree_r.arities))
