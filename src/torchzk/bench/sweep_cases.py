"""What a sweep varies: sectors in flight, workers, policies, where the key is, and the limit."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Literal, get_args

from torchzk.scheduler.policies import POLICIES

Residency = Literal["device", "host"]
"""Where the key's points lie."""
RESIDENCIES: tuple[Residency, ...] = get_args(Residency)
_GB = 10**9
_MOST = 64


@dataclass(frozen=True)
class Setting:
    """One point of a sweep."""

    policy: str
    workers: int
    in_flight: int
    """Sectors whose partitions are in work at once."""
    residency: Residency = "device"
    limit: int | None = None
    """Bytes of the device at most; None for all there are."""

    @property
    def place(self) -> tuple[Residency, int | None]:
        """What the memory is like: settings of one place share a plan and a key."""
        return self.residency, self.limit

    @property
    def name(self) -> str:
        """In words."""
        limit = "" if self.limit is None else f", {self.limit / _GB:g} GB"
        return (
            f"{self.policy}, {count(self.workers, 'worker')}, {self.in_flight} in flight, "
            f"key on {self.residency}{limit}"
        )


@dataclass(frozen=True)
class Grid:
    """Values of each, all of which are combined."""

    policies: tuple[str, ...] = tuple(POLICIES)
    workers: tuple[int, ...] = (1, 2, 3, 4)
    in_flight: tuple[int, ...] = (1, 2, 3, 4)
    residencies: tuple[Residency, ...] = ("device",)
    limits: tuple[int | None, ...] = (None,)

    def settings(self) -> list[Setting]:
        """All of them; keys are moved to the host once, and limits come largest first.

        Within a place those come first that tell most: few workers and many, of every policy.
        """
        limits = sorted(self.limits, key=lambda n: (n is not None, -(n or 0)))
        places = [(r, n) for r in RESIDENCIES if r in self.residencies for n in limits]
        inner = list(product(self.in_flight, self.workers, self.policies))
        return [Setting(p, w, f, r, n) for r, n in places for f, w, p in inner]


def sectors_of(setting: Setting, given: int | None) -> int:
    """How many go through a setting: by default two and as many again as are in flight."""
    return given or 2 + 2 * setting.in_flight


def repeats(
    settings: Iterable[Setting], partitions: int, sectors: int | None
) -> dict[Setting, Setting]:
    """Settings that need not be run, each with the one of fewer workers that it repeats.

    No more partitions are in work at once than the sectors in flight have, whoever takes them
    (`PartitionPool`). A worker beyond those of its device waits until another one delivers.

    Args:
        settings: Of one circuit.
        partitions: Of a sector.
        sectors: How many go through each, as `sectors_of`.
    """
    fewest: dict[Setting, Setting] = {}
    found = {}
    for setting in sorted(settings, key=lambda s: s.workers):
        in_work = min(setting.in_flight, sectors_of(setting, sectors)) * partitions
        used = replace(setting, workers=min(setting.workers, in_work))
        first = fewest.setdefault(used, setting)
        if first is not setting:
            found[setting] = first
    return found


def count(n: int, what: str) -> str:
    """As `1 worker`, `2 workers`."""
    return f"{n} {what}" if n == 1 else f"{n} {what}s"


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add flags for the values of a grid."""
    grid = Grid()
    for name, default, convert, what in (
        ("policies", grid.policies, _one_of(tuple(POLICIES)), "what a lock is held for"),
        ("workers", grid.workers, _count, "workers of the device"),
        ("in-flight", grid.in_flight, _count, "sectors in flight"),
        ("residency", grid.residencies, _one_of(RESIDENCIES), "where the key is: device, host"),
        ("limits", grid.limits, _limit, "memory of the device in 10^9 bytes, or none"),
    ):
        shown = ",".join("none" if value is None else str(value) for value in default)
        parser.add_argument(
            f"--{name}",
            type=_several(convert),
            default=default,
            metavar="X,...",
            help=f"{what} ({shown})",
        )


def grid_of(args: argparse.Namespace) -> Grid:
    """The grid that flags name."""
    return Grid(args.policies, args.workers, args.in_flight, args.residency, args.limits)


def _several(convert: Callable[[str], object]) -> Callable[[str], tuple[object, ...]]:
    def values(text: str) -> tuple[object, ...]:
        return tuple(dict.fromkeys(convert(part) for part in text.split(",")))

    return values


def _one_of(names: Sequence[str]) -> Callable[[str], str]:
    def value(text: str) -> str:
        if text not in names:
            raise argparse.ArgumentTypeError(f"{text:.80} is none of {', '.join(names)}")
        return text

    return value


def _count(text: str) -> int:
    if not re.fullmatch(r"[1-9]\d?", text) or int(text) > _MOST:
        raise argparse.ArgumentTypeError(f"{text:.80} is no number from 1 to {_MOST}")
    return int(text)


def _limit(text: str) -> int | None:
    if text == "none":
        return None
    if not re.fullmatch(r"[1-9]\d{0,3}", text):
        raise argparse.ArgumentTypeError(f"{text:.80} is neither none nor a number as 48")
    return int(text) * _GB
