"""Every circuit there is, by kind and sector size."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from torchzk.circuits.circuit import AnyCircuit
from torchzk.circuits.porep_circuit import PorepCircuit
from torchzk.circuits.porep_shapes import porep_shape
from torchzk.circuits.post_circuit import PostCircuit
from torchzk.circuits.post_shapes import post_shape
from torchzk.circuits.sectors import SECTOR_SHAPES
from torchzk.circuits.update_circuit import UpdateCircuit
from torchzk.circuits.update_shapes import update_shape
from torchzk.errors import ConfigError

_CIRCUITS: Mapping[str, Callable[[int], AnyCircuit]] = {
    "porep": lambda size: PorepCircuit(porep_shape(size)),
    "winning": lambda size: PostCircuit(post_shape("winning", size)),
    "window": lambda size: PostCircuit(post_shape("window", size)),
    "update": lambda size: UpdateCircuit(update_shape(size)),
}
KINDS = tuple(_CIRCUITS)


def get_circuit(kind: str, sector_size: int) -> AnyCircuit:
    """The circuit of a kind and a sector size in bytes.

    Raises:
        ConfigError: There is none; the message names those there are.
    """
    if kind not in _CIRCUITS:
        raise ConfigError(f"no circuit {kind!r}; there are {', '.join(KINDS)}")
    # an update says itself which sizes it has
    if sector_size not in SECTOR_SHAPES and kind != "update":
        sizes = ", ".join(f"{s.sector_size} ({s.name})" for s in SECTOR_SHAPES.values())
        raise ConfigError(f"no {kind} circuit of {sector_size} byte sectors; there are {sizes}")
    return _CIRCUITS[kind](sector_size)
