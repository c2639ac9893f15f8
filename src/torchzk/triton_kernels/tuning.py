"""Launch shapes as data: by operation, limbs of a coordinate and architecture."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Shape:
    """How a kernel is launched."""

    block: int
    """Elements a program takes."""
    num_warps: int
    measured: str
    """What chose it."""


# one element a thread: more were 2 to 5 % slower, blocks of 64 to 512 alike within 2 %
_ELEMENTWISE = Shape(128, 4, "multiplication loops on one H200, Triton 3.6")
# a power is one long chain: two elements a thread take twice as long, larger blocks 5 % longer
_FERMAT = Shape(32, 1, "powers of 2^8 and 2^14 elements on one H200, Triton 3.6")

SHAPES: dict[tuple[str, int, int], Shape] = {
    ("elementwise", 8, 90): _ELEMENTWISE,
    ("elementwise", 12, 90): _ELEMENTWISE,
    ("inverse", 8, 90): _ELEMENTWISE,
    ("inverse", 12, 90): _ELEMENTWISE,
    ("fermat", 8, 90): _FERMAT,
    ("fermat", 12, 90): _FERMAT,
}
"""Keyed by (operation, limbs, architecture), the architecture as in sm_90."""

DEFAULT_ARCH = 90
"""Whose shapes serve an architecture that has none of its own."""


def shape_for(op: str, limbs: int, arch: int) -> Shape:
    """The launch shape of `op`; an architecture without a row takes that of `DEFAULT_ARCH`."""
    return SHAPES.get((op, limbs, arch)) or SHAPES[(op, limbs, DEFAULT_ARCH)]
