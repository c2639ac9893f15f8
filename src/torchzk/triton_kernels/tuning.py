"""What was tuned, as data: by operation, limbs of a coordinate and architecture.

`SHAPES` says how kernels are launched, `NUMBERS` holds other integers, which may go by size. An
entry for the limbs of a coordinate serves G1 and G2 alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

Key = tuple[str, int, int]
"""Operation, limbs (of SHA-256, words of the state), architecture as in sm_90."""


@dataclass(frozen=True)
class Shape:
    """How a kernel is launched."""

    block: int
    """Elements a program takes."""
    num_warps: int
    measured: str
    """What chose it."""
    registers: int | None = None
    """The most a thread may take, if there is a limit."""


@dataclass(frozen=True)
class Number:
    """An integer by size."""

    steps: tuple[tuple[int, int], ...]
    """(log2 of the least size, value), by size, the first from 0 on."""
    measured: str
    """What chose it."""

    def at(self, log_n: int) -> int:
        """The value at size 2^log_n."""
        # plain on purpose: short transforms notice what their host does
        found = 0
        for least, value in self.steps:
            if log_n < least:
                break
            found = value
        return found


# one element a thread: more were 2 to 5 % slower, blocks of 64 to 512 alike within 2 %
_ELEMENTWISE = Shape(128, 4, "multiplication loops on one H200, Triton 3.6")
# a power is one long chain: two elements a thread take twice as long, larger blocks 5 % longer
_FERMAT = Shape(32, 1, "powers of 2^8 and 2^14 elements on one H200, Triton 3.6")
_NTT = "runs/bench/ntt.jsonl: one H200, Triton 3.6"
_NTT_TRIALS = "runs/bench/ntt_trials.jsonl: one H200, Triton 3.6"
_SHAPES = "runs/bench/shapes.jsonl: one H200, Triton 3.6"
_TRANSFORMS = "runs/bench/transforms.jsonl: one H200, Triton 3.6"
_WINDOWS = "runs/bench/msm_trials.jsonl: one H200, Triton 3.6"
_CURVE = "runs/bench/curve_trials.jsonl: one H200, Triton 3.6"
# indices and keys: memory decides, not the shape
_INDICES = Shape(512, 4, "not varied")
# a lane a warp's thread, so that blocks spread over the card
_WARP = Shape(32, 1, "trials on one H200: 1 to 8 warps within 5 %")

# nothing is shared between lanes; small batches spread over more processors
_SHA256 = Shape(64, 2, "not varied")

SHAPES: dict[Key, Shape] = {
    ("elementwise", 8, 90): _ELEMENTWISE,
    ("elementwise", 12, 90): _ELEMENTWISE,
    ("inverse", 8, 90): _ELEMENTWISE,
    ("inverse", 12, 90): _ELEMENTWISE,
    ("fermat", 8, 90): _FERMAT,
    ("fermat", 12, 90): _FERMAT,
    # 168 registers: 2 % quicker forward at 2^27 and 2^24, 2 to 8 % slower back and at 2^20; no
    # limit is slower everywhere; blocks of 64 or 256 lanes: within 3 %
    ("ntt pass", 8, 90): Shape(128, 4, _NTT, registers=128),
    ("pairs", 12, 90): _WARP,
    ("sums", 12, 90): _WARP,
    ("points", 12, 90): Shape(128, 4, "not varied"),
    ("labels", 12, 90): _INDICES,
    ("digits", 8, 90): _INDICES,
    ("values", 8, 90): _ELEMENTWISE,
    ("sha256", 8, 90): _SHA256,
    ("sha256 steps", 8, 90): _SHA256,
    # squares of words: side 2^6 turned 2^27 words in 2.2 ms, 2^5 in 2.6, 2^7 in 3.0
    ("bit reversal", 8, 90): Shape(1 << 12, 8, _NTT),
}

NUMBERS: dict[Key, Number] = {
    # log2 of the blocks that are gone through together, by log2 of a pass's distance: where it
    # reads many constants, 448 bytes times the distance. Groups of 2^3 blocks: 5 % quicker than
    # none, of 2^2 and 2^6 less so. Below, the warps of a program share constants: 2 % at 2^27
    ("ntt group", 8, 90): Number(((0, 2), (16, 3)), f"{_NTT}; {_NTT_TRIALS}"),
    # 1 where the halves of as many elements are worth launches of their own, beside each other: 11
    # and 8 % quicker at 2^21 and 2^22, 5 % at 2^23, within noise at 2^24, 3 % slower at 2^27. At
    # 2^20 a sixth quicker where the host keeps pace, and at 2^19 it may not
    ("ntt halves", 8, 90): Number(((0, 0), (20, 1), (24, 0)), f"{_NTT_TRIALS}; {_SHAPES}"),
    # 1 where as many elements are worth graphs. In one process (ec5b470) they were 5 to 22 %
    # quicker than plans at 2^16 and 2^17, and 4 to 13 % slower from 2^18 to 2^20: there 0.232 ms
    # instead of 0.222, and 0.220 (b952bde) since their first launch comes sooner. But a host that
    # is slow at the time delays the launches of a plan: 0.226 to 0.303 ms in four processes
    # (8c08e90)
    ("ntt graph", 8, 90): Number(((0, 1), (21, 0)), f"{_SHAPES}; {_TRANSFORMS}"),
    # 16 pairs of a lane: 1 % slower, and at 2^20 and 2^22 the same
    ("pairs of a lane", 12, 90): Number(((0, 32), (25, 64)), f"{_CURVE}; {_WINDOWS}"),
    # lanes below which a lane takes fewer pairs, as the card would be idle
    ("lanes of pairs", 12, 90): Number(((0, 1 << 14),), _CURVE),
    # elements that are inverted one by one: it takes as long as for one
    ("inverted alone", 12, 90): Number(((0, 1 << 14),), _CURVE),
    # 4 points of a lane: 15 % slower, 16 the same, 32 12 % slower, in sums of 2^21 buckets
    ("points of a lane", 12, 90): Number(((0, 8),), _CURVE),
    # 1 where sums of rows and of columns of as many buckets are launched beside each other: one
    # after the other takes 1 % longer, and in G2 up to 6 %
    ("sums beside", 12, 90): Number(((0, 1),), _WINDOWS),
    # points below which rounds of pairs, each of which waits for an inversion, are given up:
    # 2^15 and 2^17 of 2^24 are 3 % slower, 2^19 to 2^21 within 1 %
    ("points in rounds", 12, 90): Number(((0, 1 << 18),), _CURVE),
    # what a bucket costs, in tenths of an addition, and a round of pairs and another width of
    # windows, in additions: they choose the quickest of what was tried at 2^20 to 2^27, but for
    # 2^24 in G1, where 13 windows take 0.5 % less than 14, and in G2 1 % more
    ("bucket cost", 12, 90): Number(((0, 65),), _WINDOWS),
    ("round cost", 12, 90): Number(((0, 3_000_000),), _WINDOWS),
    ("width cost", 12, 90): Number(((0, 5_000_000),), _WINDOWS),
    # windows of multiples of one point: a table of 2^19 points stays in the cache
    ("fixed base bits", 12, 90): Number(((0, 16),), _CURVE),
}

DEFAULT_ARCH = 90
"""Whose entries serve an architecture that has none of its own."""

T = TypeVar("T")


def shape_for(op: str, limbs: int, arch: int) -> Shape:
    """The launch shape of `op`; an architecture without a row takes that of `DEFAULT_ARCH`."""
    return _entry(SHAPES, op, limbs, arch)


def number_for(op: str, limbs: int, arch: int, log_n: int) -> int:
    """The number `op` at size 2^log_n; architectures as for `shape_for`."""
    return _entry(NUMBERS, op, limbs, arch).at(log_n)


def _entry(table: Mapping[Key, T], op: str, limbs: int, arch: int) -> T:
    return table.get((op, limbs, arch)) or table[(op, limbs, DEFAULT_ARCH)]
