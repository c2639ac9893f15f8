"""Every input that a fuzzer found a fault with, and every seed, read again: without a fuzzer."""

from __future__ import annotations

import lzma
from pathlib import Path

import pytest

from fuzz.catalogue import TARGETS
from fuzz.target import fault_of, takes_too_much

FINDS = Path(__file__).parent / "finds"


def inputs(name: str) -> dict[str, bytes]:
    """Seeds by their number, finds by the name of their file."""
    seeds = {f"seed {k}": seed for k, seed in enumerate(TARGETS[name].seeds())}
    finds = sorted(FINDS.glob(f"{name}-*"))
    return seeds | {path.name: lzma.decompress(path.read_bytes()) for path in finds}


@pytest.mark.parametrize("name", TARGETS)
def test_reads_or_refuses(name: str, tmp_path: Path) -> None:
    target = TARGETS[name]
    with target.open(tmp_path) as read:
        for what, data in inputs(name).items():
            # of a process that has much else in it, which Python may tidy up meanwhile
            assert fault_of(target, read, data, most_seconds=5) is None, what
            # what is kept for the next input is there by now
            assert not takes_too_much(target, read, data), what


def test_every_find_belongs_to_a_target() -> None:
    assert {path.name.partition("-")[0] for path in FINDS.iterdir()} <= set(TARGETS)
