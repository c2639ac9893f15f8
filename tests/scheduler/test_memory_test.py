"""The test of a device's memory finds what broken memory does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from torchzk.errors import ResourceError
from torchzk.scheduler import memory_test
from torchzk.scheduler.memory_test import MemoryTest, check_chunks, run_memory_test

N = 1 << 12


def sound(count: int = 3) -> list[torch.Tensor]:
    return [torch.empty(N, dtype=torch.int64) for _ in range(count)]


class Broken(torch.Tensor):
    """Memory whose words pass through a fault whenever they are written."""

    fault: Callable[[torch.Tensor], object]

    def copy_(self, source: torch.Tensor, non_blocking: bool = False) -> Broken:
        plain = self.as_subclass(torch.Tensor)
        plain.copy_(source, non_blocking)
        self.fault(plain)
        return self


def broken(fault: Callable[[torch.Tensor], object]) -> torch.Tensor:
    chunk = torch.empty(N, dtype=torch.int64).as_subclass(Broken)
    chunk.fault = fault
    return chunk


def test_sound_memory_passes_every_pattern() -> None:
    told: list[float] = []
    assert check_chunks(sound(), 1e-9, told.append) == (6, 0)
    assert told == sorted(told) and len(told) == 6 and told[-1] == 1.0


def test_every_word_has_a_pattern_of_its_own() -> None:
    chunk = torch.empty(N, dtype=torch.int64)
    step, mask = memory_test._PATTERNS[-1]
    words = [memory_test._pattern(chunk, first, step, mask) for first in (0, N)]
    assert len(set(torch.cat(words).tolist())) == 2 * N


@pytest.mark.parametrize("bit", [0, 31, 62, 63])
@pytest.mark.parametrize("value", [0, 1])
def test_a_bit_that_is_stuck(bit: int, value: int) -> None:
    mask = torch.tensor(1).bitwise_left_shift(bit)

    def stuck(words: torch.Tensor) -> None:
        words[7] = words[7] | mask if value else words[7] & ~mask

    rounds, wrong = check_chunks([*sound(), broken(stuck)], 1e-9, lambda _: None)
    # of six patterns half have it the other way
    assert (rounds, wrong) == (6, 3)


def test_a_fault_of_addresses() -> None:
    """One word is found where another was written: only words that differ can tell."""
    (shared,) = sound(1)

    def aliased(words: torch.Tensor) -> None:
        words[5] = words[9]

    assert check_chunks([broken(aliased)], 1e-9, lambda _: None) == (6, 2)
    # two chunks of the same memory
    assert check_chunks([shared, shared], 1e-9, lambda _: None) == (6, 2 * N)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="CUDA: tests its memory")
def test_a_gpu() -> None:
    device = torch.device("cuda:0")
    # other tests of this process may have left something that is still in use
    torch.cuda.empty_cache()
    before = torch.cuda.memory_reserved(device)
    found = run_memory_test(device, 1.0)
    free, _ = torch.cuda.mem_get_info(device)
    assert found.wrong == 0 and found.rounds >= 6
    assert found.n_bytes > free - (1 << 30)
    # not one chunk is kept
    assert torch.cuda.memory_reserved(device) < before + memory_test._CHUNK


def test_no_room_is_no_test(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_test, "free_memory", lambda _: 1 << 28)
    with pytest.raises(ResourceError, match="cpu: there is no free memory to test"):
        run_memory_test(torch.device("cpu"), 1e-9)


def test_what_others_take_meanwhile_is_not_tested(monkeypatch: pytest.MonkeyPatch) -> None:
    """Room for 20 chunks is promised, and 9 are to be had."""
    monkeypatch.setattr(memory_test, "_CHUNK", 8 * N)
    monkeypatch.setattr(memory_test, "free_memory", lambda _: 24 * 8 * N)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)
    empty, made = torch.empty, []

    def take(*size: int, **of: Any) -> torch.Tensor:
        made.append(size)
        if len(made) == 10:
            raise RuntimeError("CUDA driver error: out of memory")
        return empty(*size, **of)

    monkeypatch.setattr(torch, "empty", take)
    cpu = torch.device("cpu")
    assert run_memory_test(cpu, 1e-9) == MemoryTest("cpu", 5 * 8 * N, 6, 0)
    assert len(made) == 10
    # all that was promised
    made.extend([()] * 10)
    assert run_memory_test(cpu, 1e-9) == MemoryTest("cpu", 20 * 8 * N, 6, 0)
