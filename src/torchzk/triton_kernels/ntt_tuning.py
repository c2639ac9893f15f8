"""Launch shapes of the transforms as data, by architecture."""

from __future__ import annotations

from dataclasses import dataclass

from torchzk.triton_kernels.tuning import DEFAULT_ARCH, Shape


@dataclass(frozen=True)
class NttShape:
    """How passes are launched."""

    lanes: Shape
    registers: int | None
    """The most a thread may take, if there is a limit."""
    edge: int
    """log2 of the side of the squares of words that a bit reversal turns."""
    edge_warps: int
    group: int = 0
    """log2 of the blocks that are gone through together, where a pass reads many constants."""
    group_from: int = 16
    """log2 of the least distance for that; the constants of a pass are 448 bytes times it."""

    def log_group(self, log_m: int) -> int:
        """What the kernels take, for a pass at distance 2^log_m."""
        return self.group if log_m >= self.group_from else 0


# 168 registers: 2 % quicker forward at 2^27 and 2^24, 2 to 8 % slower back and at 2^20; no limit is
# slower everywhere; blocks of 64 or 256 lanes: within 3 %. Squares of side 2^6 turned 2^27 words in
# 2.2 ms, of 2^5 in 2.6, of 2^7 in 3.0. Groups of 2^3 blocks: 5 % quicker than none, of 2^2 and 2^6
# less so
_MEASURED = "runs/bench/ntt.jsonl: one H200, Triton 3.6"

SHAPES: dict[int, NttShape] = {
    90: NttShape(Shape(128, 4, _MEASURED), 128, 6, 8, group=3),
}
"""By architecture, as in sm_90."""


def ntt_shape(arch: int) -> NttShape:
    """The shape for an architecture; one without a row takes that of `DEFAULT_ARCH`."""
    return SHAPES.get(arch) or SHAPES[DEFAULT_ARCH]
