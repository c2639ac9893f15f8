"""The steps of compressions against Python integers and hashlib."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Sequence

import pytest
import torch

from torchzk.backends import Backend
from torchzk.errors import LayoutError
from torchzk.params import sha256_steps
from torchzk.params.sha256 import IV
from torchzk.params.sha256_steps import N_STEPS

MASK = (1 << 32) - 1


class Integers:
    """The program on Python integers, with its steps."""

    def __init__(self) -> None:
        self.words: list[int] = []

    def note(self, value: int) -> int:
        self.words.append(value)
        return value & MASK

    def constant(self, value: int) -> int:
        return value

    def rotr(self, word: int, n: int) -> int:
        return (word << 32 | word) >> n & MASK

    def shr(self, word: int, n: int) -> int:
        return word >> n

    def xor(self, a: int, b: int) -> int:
        return self.note(a ^ b)

    def choice(self, a: int, b: int, c: int) -> int:
        return self.note(sum(((b if a >> i & 1 else c) >> i & 1) << i for i in range(32)))

    def majority(self, a: int, b: int, c: int) -> int:
        bits = [(a >> i & 1) + (b >> i & 1) + (c >> i & 1) for i in range(32)]
        out = self.note(sum((bit >= 2) << i for i, bit in enumerate(bits)))
        self.note(b & c)
        return out

    def add(self, words: Sequence[int]) -> int:
        return self.note(sum(words))


def expected(block: Sequence[int], state: Sequence[int]) -> list[int]:
    run = Integers()
    sha256_steps.run(run, block, state)
    assert len(run.words) == N_STEPS
    return run.words


def words(x: list[list[int]], device: torch.device) -> torch.Tensor:
    """Lists by compression to planes."""
    signed = [[w - (w >> 31 << 32) for w in row] for row in x]
    return torch.tensor(signed, dtype=torch.int32, device=device).t().contiguous()


def batch(n: int) -> tuple[list[list[int]], list[list[int]]]:
    """Blocks and states, edges first."""
    rng = random.Random(n)

    def some(count: int) -> list[list[int]]:
        return [[MASK] * count, *([rng.randrange(1 << 32) for _ in range(count)] for _ in range(n))]

    return some(16)[:n], some(8)[:n]


@pytest.mark.parametrize("n", [1, 7])
def test_steps(backend: Backend, device: torch.device, n: int) -> None:
    blocks, states = batch(n)
    got = backend.sha256_steps(words(blocks, device), words(states, device))
    assert got.dtype == torch.int64
    assert got.t().tolist() == [expected(b, s) for b, s in zip(blocks, states, strict=True)]


def test_a_digest_is_the_last_steps(backend: Backend, device: torch.device) -> None:
    message = b"sums are kept whole"
    padded = (
        message + b"\x80" + bytes(63 - len(message) - 8) + (8 * len(message)).to_bytes(8, "big")
    )
    block = [int.from_bytes(padded[i : i + 4], "big") for i in range(0, 64, 4)]
    got = backend.sha256_steps(words([block], device), words([list(IV)], device))
    state = [int(w) & MASK for w in got[-8:, 0]]
    digest = hashlib.sha256(message).digest()
    assert b"".join(w.to_bytes(4, "big") for w in state) == digest
    assert int(got.max()) > MASK


def test_no_compressions(backend: Backend, device: torch.device) -> None:
    blocks, states = (torch.zeros(k, 0, dtype=torch.int32, device=device) for k in (16, 8))
    assert backend.sha256_steps(blocks, states).shape == (N_STEPS, 0)


def test_wrong_shapes_are_refused(backend: Backend, device: torch.device) -> None:
    blocks, states = (torch.zeros(k, 3, dtype=torch.int32, device=device) for k in (16, 8))
    for wrong in ((blocks, states[:, :2]), (states, blocks), (blocks.long(), states.long())):
        with pytest.raises(LayoutError, match="int32"):
            backend.sha256_steps(*wrong)
