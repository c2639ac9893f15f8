"""Sector sizes and the shapes of their TreeR, as data. Source: spec/porep.md section 1."""

from __future__ import annotations

from dataclasses import dataclass

NODE_BYTES = 32
BASE_ARITY = 8
MAX_SECTOR_NUMBER = (1 << 64) - 1


@dataclass(frozen=True)
class TreeShape:
    """A Poseidon tree of `base_levels` levels of arity 8, then one of `sub` and one of `top`.

    `sub` and `top` are 0 where the level does not exist. TreeC and TreeR have the same shape.
    """

    base_levels: int
    sub: int
    top: int

    @property
    def name(self) -> str:
        """What the network's parameters call it. spec/groth16.md 10."""
        return f"merkletree-poseidon_hasher-{BASE_ARITY}-{self.sub}-{self.top}"

    @property
    def arities(self) -> tuple[int, ...]:
        """Arity of each level, from the leaf upwards."""
        return (BASE_ARITY,) * self.base_levels + tuple(a for a in (self.sub, self.top) if a)

    @property
    def parts(self) -> tuple[tuple[int, ...], ...]:
        """The same, cut as a Merkle proof cuts its path: base, sub, top."""
        upper = tuple((a,) for a in (self.sub, self.top) if a)
        return ((BASE_ARITY,) * self.base_levels, *upper)


@dataclass(frozen=True)
class SectorShape:
    """A sector size: its bytes, its name in registered proofs, its TreeR."""

    sector_size: int
    name: str
    tree_r: TreeShape

    @property
    def n_nodes(self) -> int:
        return self.sector_size // NODE_BYTES


def _shape(name: str, sub: int = 0, top: int = 0) -> SectorShape:
    number, unit = name[:-3], name[-3:]
    size = int(number) << {"KiB": 10, "MiB": 20, "GiB": 30}[unit]
    base_leaves = size // NODE_BYTES // (sub or 1) // (top or 1)
    return SectorShape(size, name, TreeShape((base_leaves.bit_length() - 1) // 3, sub, top))


SECTOR_SHAPES = {
    shape.sector_size: shape
    for shape in (
        _shape("2KiB"),
        _shape("4KiB", 2),
        _shape("16KiB", 8),
        _shape("32KiB", 8, 2),
        _shape("8MiB"),
        _shape("16MiB", 2),
        _shape("512MiB"),
        _shape("1GiB", 2),
        _shape("32GiB", 8),
        _shape("64GiB", 8, 2),
    )
}
"""Sector bytes to shape. Filecoin registers 2 KiB, 8 MiB, 512 MiB, 32 GiB and 64 GiB only."""
