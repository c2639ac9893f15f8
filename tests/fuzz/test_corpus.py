"""Good inputs cut short at every length and with every byte of their head changed.

Each is one typed error in no time, with no more memory than its own size asks for; the targets say
how much, and that what is taken for good all the same says what the input says.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fuzz.catalogue import TARGETS
from fuzz.target import fault_of, takes_too_much

WHOLE = ("c1_json", "c1_bincode", "post_job", "update_job", "params", "vk", "secrets", "kept")
"""Targets whose inputs say where they end, so that none may be taken that is cut short."""
HEAD = 868
"""Bytes before the first count of a key, the longest head of all."""


def cut_short(data: bytes, most: int) -> Iterator[bytes]:
    """At every length, or at `most` of them."""
    yield from (data[:n] for n in range(1, len(data), max(1, len(data) // most)))


def changed(data: bytes, most: int) -> Iterator[bytes]:
    """The lowest and the highest bit of every byte of the head, or of `most` of them."""
    head = min(HEAD, len(data))
    for at in range(0, head, max(1, head // most)):
        for bits in (0x01, 0x80):
            yield data[:at] + bytes([data[at] ^ bits]) + data[at + 1 :]


@pytest.mark.parametrize(
    "most",
    [16, pytest.param(1 << 30, marks=pytest.mark.full("every length and byte, 5 minutes"))],
)
@pytest.mark.parametrize("name", TARGETS)
def test_damaged(name: str, most: int, tmp_path: Path) -> None:
    target = TARGETS[name]
    good = next(iter(target.seeds()))
    with target.open(tmp_path) as read:
        for data in (*cut_short(good, most), *changed(good, most)):
            assert fault_of(target, read, data, most_seconds=5) is None, data[:HEAD]
            if len(data) < len(good) and name in WHOLE:
                with pytest.raises(target.errors):
                    read(data)
        for data in (good, good[: len(good) // 2], b"\xff" * 1000, bytes(1000), good + good):
            assert fault_of(target, read, data, most_seconds=5) is None
            assert not takes_too_much(target, read, data)


@pytest.mark.parametrize("name", ["params", "vk"])
@pytest.mark.parametrize("count", [0, 1, 1 << 16, 1 << 31, (1 << 32) - 1])
def test_counts_of_points_are_not_believed(name: str, count: int, tmp_path: Path) -> None:
    target = TARGETS[name]
    good = next(iter(target.seeds()))
    n_inputs = int.from_bytes(good[864:868], "big")
    places = [864] if name == "vk" else [864, 868 + 96 * n_inputs]
    with target.open(tmp_path) as read:
        for at in places:
            data = good[:at] + count.to_bytes(4, "big") + good[at + 4 :]
            if data == good:
                continue
            with pytest.raises(target.errors, match=r"count of|says|at byte"):
                read(data)
            assert not takes_too_much(target, read, data)
