"""What is kept on a device is no other device's matter, and can be forgotten at any time."""

from __future__ import annotations

import threading
import weakref
from dataclasses import dataclass, field
from typing import Any, cast

import pytest
import torch

from torchzk.device_cache import DeviceCache, holding
from torchzk.groth16.streams import used_here

ONE, TWO = torch.device("cuda", 0), torch.device("cuda", 1)


@dataclass(eq=False)
class Table:
    number: int
    device: torch.device


@pytest.fixture
def kept() -> DeviceCache[[int, torch.device], Table]:
    return DeviceCache(Table, maxsize=2)


def test_devices_do_not_throw_out_each_others_results(
    kept: DeviceCache[[int, torch.device], Table],
) -> None:
    first = kept(1, ONE)
    others = [kept(n, TWO) for n in range(3)]
    assert kept(1, ONE) is first and len(kept) == 3
    # of one device the oldest goes
    assert kept(2, TWO) is others[2] and kept(0, TWO) is not others[0]


def test_what_one_device_gives_back_stays_on_another(
    kept: DeviceCache[[int, torch.device], Table],
) -> None:
    first, second = kept(1, ONE), kept(1, TWO)
    gone = weakref.ref(first)
    kept.forget(ONE)
    kept.forget(torch.device("cpu"))
    assert kept(1, TWO) is second and len(kept) == 1
    # who has it keeps it
    assert gone() is first and kept(1, ONE) is not first
    del first
    assert gone() is None
    kept.cache_clear()
    assert len(kept) == 0


def test_what_is_held_is_had_again_whatever_is_forgotten(
    kept: DeviceCache[[int, torch.device], Table],
) -> None:
    other = DeviceCache(Table, maxsize=1)
    held: dict[Any, Any] = {}
    with holding(held):
        first, second = kept(1, ONE), other(1, ONE)
        with holding({}):
            # kept, and held by nobody but these
            assert kept(2, ONE).number == 2
    assert len(held) == 2 and kept(1, ONE) is first is not second
    kept.cache_clear()
    other.cache_clear()
    anew = kept(1, ONE)
    with holding(held):
        assert kept(1, ONE) is first and other(1, ONE) is second
    assert kept(1, ONE) is anew is not first and len(held) == 2


def test_what_a_thread_holds_is_its_own(kept: DeviceCache[[int, torch.device], Table]) -> None:
    held: dict[Any, Any] = {}
    with holding(held):
        thread = threading.Thread(target=kept, args=(1, ONE))
        thread.start()
        thread.join()
    assert held == {} and len(kept) == 1


@dataclass
class OnCuda:
    is_cuda: bool
    device: torch.device
    readers: list[str] = field(default_factory=list)

    def record_stream(self, stream: str) -> None:
        self.readers.append(stream)


def test_the_allocator_is_told_of_the_stream_that_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: f"that of {device}")
    there, here = OnCuda(True, TWO), OnCuda(False, torch.device("cpu"))
    used_here(*cast(Any, (there, here)))
    assert there.readers == ["that of cuda:1"] and here.readers == []
