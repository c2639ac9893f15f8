"""A test of a GPU's memory: patterns are written over all of it that is free, and read back.

A pattern is everywhere before any of it is read: by then a weak cell has lost what it holds, and a
fault of addresses has put one word in the place of another.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from torchzk.errors import ResourceError
from torchzk.memory_faults import ran_out_of_memory
from torchzk.scheduler.device_budget import free_memory

_CHUNK = 1 << 27
"""Bytes that are written or read at a time."""
_BESIDE = 4
"""Chunks that are left free: what one is compared with, and what came of it."""
_SPREAD = 0x1E3779B97F4A7C15
"""Odd, so that words of different places differ: multiples of it, modulo 2^64, do."""
_PATTERNS = (
    (0, 0),
    (0, -1),
    (0, 0x5555555555555555),
    (0, ~0x5555555555555555),
    (_SPREAD, 0),
    (_SPREAD, -1),
)
"""(step, mask): word i holds i * step ^ mask. Every bit is 0 and 1 in its turn, and unlike its
neighbours."""


@dataclass(frozen=True)
class MemoryTest:
    """What came of a test."""

    device: str
    n_bytes: int
    """How much was tested: what nobody else had."""
    rounds: int
    """Times that all of it was written and read, each with another pattern."""
    wrong: int
    """Words of 8 bytes that were read otherwise than they were written."""


def run_memory_test(
    device: torch.device, seconds: float, advance: Callable[[float], None] = lambda _: None
) -> MemoryTest:
    """Test what is free of a CUDA device, for some seconds and with every pattern at least.

    Args:
        advance: Gets the fraction done, from 0 to 1.

    Raises:
        ResourceError: Nothing is free.
    """
    chunks: list[torch.Tensor] = []
    for _ in range(free_memory(device) // _CHUNK - _BESIDE):
        try:
            chunks.append(torch.empty(_CHUNK // 8, dtype=torch.int64, device=device))
        except RuntimeError as e:
            if not ran_out_of_memory(e):
                raise
            # somebody else took it meanwhile, or a limit keeps us from it: what is compared needs
            # room as well
            del chunks[-_BESIDE:]
            break
    if not chunks:
        raise ResourceError(f"{device}: there is no free memory to test; end what has it")
    try:
        rounds, wrong = check_chunks(chunks, seconds, advance)
        return MemoryTest(str(device), len(chunks) * _CHUNK, rounds, wrong)
    finally:
        chunks.clear()
        torch.cuda.empty_cache()


def check_chunks(
    chunks: Sequence[torch.Tensor], seconds: float, advance: Callable[[float], None]
) -> tuple[int, int]:
    """Rounds, and words that came back wrong in them.

    Args:
        chunks: int64 `[n]` each, all on one device.
        seconds: After which no other round begins, once there was one of every pattern.
    """
    start, wrong = time.monotonic(), 0
    for done in itertools.count(1):
        step, mask = _PATTERNS[(done - 1) % len(_PATTERNS)]
        first = 0
        for chunk in chunks:
            chunk.copy_(_pattern(chunk, first, step, mask))
            first += len(chunk)
        first, counts = 0, []
        for chunk in chunks:
            counts.append((chunk != _pattern(chunk, first, step, mask)).sum())
            first += len(chunk)
        wrong += sum(int(count) for count in counts)
        elapsed = time.monotonic() - start
        advance(min(done / len(_PATTERNS), elapsed / seconds, 1.0))
        if elapsed >= seconds and done >= len(_PATTERNS):
            return done, wrong
    raise AssertionError


def _pattern(chunk: torch.Tensor, first: int, step: int, mask: int) -> torch.Tensor:
    """What the words from number `first` on hold; one word for all where they are alike."""
    if step == 0:
        return torch.tensor(mask, device=chunk.device)
    last = first + len(chunk)
    return torch.arange(first, last, device=chunk.device).mul_(step).bitwise_xor_(mask)
