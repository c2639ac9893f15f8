"""Names of circuits: cuzk's, such as `wpost-32g`, and ours, such as `window-32GiB`.

Both come from one closed list, so nothing a client sends is ever more than a name in it.
"""

from __future__ import annotations

import difflib

from torchzk.circuits.sectors import SECTOR_SHAPES
from torchzk.errors import NotFoundError
from torchzk.serving.engine import ProofKind

_KINDS = {
    ProofKind.POREP: ("porep", "porep"),
    ProofKind.WINDOW: ("window", "wpost"),
    ProofKind.WINNING: ("winning", "winning"),
    ProofKind.UPDATE: ("update", "snap"),
}
"""Of each kind the word in our names, and the one in cuzk's."""


def _short(name: str) -> str:
    """`32g` of `32GiB`."""
    return name.removesuffix("iB").lower()


_CUZK = {
    f"{ours}-{shape.name}": f"{cuzk}-{_short(shape.name)}"
    for ours, cuzk in _KINDS.values()
    for shape in SECTOR_SHAPES.values()
}
_OURS = {cuzk: ours for ours, cuzk in _CUZK.items()} | {ours: ours for ours in _CUZK}


def circuit_word(kind: ProofKind) -> str:
    """The word of a kind in configs and in names of circuits, such as `window`."""
    return _KINDS[kind][0]


def circuit_name_of(kind: ProofKind, sector_size: int) -> str:
    """Our name of the circuit of a kind and a sector size that is one."""
    return f"{circuit_word(kind)}-{SECTOR_SHAPES[sector_size].name}"


def circuit_name(said: str) -> str:
    """Our name of the circuit that a client calls by either name.

    Raises:
        NotFoundError: There is none.
    """
    if said not in _OURS:
        shown = ascii(said[:40])
        near = difflib.get_close_matches(said[:40].lower(), _OURS, 1)
        hint = f"did you mean {near[0]}?" if near else "write kind and size, such as porep-32g"
        raise NotFoundError(f"circuit_id: there is no circuit {shown}; {hint}")
    return _OURS[said]


def cuzk_id(name: str) -> str:
    """cuzk's name of the circuit that we call `name`."""
    return _CUZK[name]
