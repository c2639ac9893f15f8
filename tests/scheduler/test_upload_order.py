"""A key's parts come in an order in which neither the link nor the device waits much."""

from __future__ import annotations

from dataclasses import replace

import pytest

from circuit_samples import sizes_of
from torchzk.groth16.keys import QUERIES
from torchzk.groth16.order import part_order
from torchzk.groth16.room import Room
from torchzk.groth16.streams import Part
from torchzk.scheduler.plan import plan

pytest.importorskip("triton")

GB = 10**9
SECONDS_A_BYTE = 1 / 55e9
SECONDS_AN_ADDITION = 0.338e-9
"""Of an H200, which multiplies 134 million points in 0.59 s, 13 additions each."""
BEFORE_SUMS = 0.3
"""Products and quotient of the same circuit."""
GAP = 0.003
"""Between two parts on the device, where the host adds sums."""


def played(order: tuple[Part, ...], room: Room) -> tuple[float, float]:
    """Seconds until the last sum is there, and how long the device waits for the link.

    Buffers are used in turn: a part sets out once the one that had its buffer is done.
    """
    costs = dict(zip(QUERIES, room.costs, strict=True))
    free = [0.0] * room.early_slots + [BEFORE_SUMS] * (room.slots - room.early_slots)
    link, now, waited = 0.0, BEFORE_SUMS, 0.0
    for part in order:
        n = part.stop - part.start
        link = max(link, free.pop(0)) + n * 96 * QUERIES[part.query].degree * SECONDS_A_BYTE
        waited += max(0.0, link - now)
        now = max(now, link) + n * costs[part.query] * SECONDS_AN_ADDITION + GAP
        free.append(now)
    return now, waited


@pytest.mark.parametrize("budget", [20, 24, 32, 48])
def test_the_device_waits_less_than_a_twentieth(budget: int) -> None:
    sizes = sizes_of("porep-32GiB")
    room = plan(sizes, "triton", budget * GB, key="host").room
    seconds, waited = played(part_order(sizes.lengths, room), room)
    assert waited < 0.05 * seconds
    # with the same ring, one query after another
    longer, waited_longer = played(part_order(sizes.lengths, replace(room, costs=())), room)
    assert longer > 1.1 * seconds and waited_longer > 0.1 * longer


def test_all_points_come_once_and_in_order() -> None:
    sizes = sizes_of("update-2KiB")
    for costs in ((), (13.0, 1.0, 1.0, 1.0, 3.0), (1.0, 9.0, 9.0, 9.0, 9.0)):
        for step in (1000, 7001, 1 << 20):
            order = part_order(sizes.lengths, Room(step, step // 2, costs=costs))
            for name, curve in QUERIES.items():
                n, long = sizes.lengths.of(name), step // curve.degree
                mine = [part for part in order if part.query == name]
                assert [part.start for part in mine] == list(range(0, n, long))
                assert [part.stop for part in mine] == [*range(long, n, long), n]
            # all but h come one query after another
            others = [part.query for part in order if part.query != "h"]
            assert others == sorted(others, key=list(QUERIES).index)


def test_h_is_spread_over_the_whole() -> None:
    sizes = sizes_of("porep-32GiB")
    order = part_order(sizes.lengths, Room(1 << 24, 1 << 23, costs=(13.0, 1.0, 1.0, 2.0, 4.0)))
    places = [i for i, part in enumerate(order) if part.query == "h"]
    gaps = [b - a for a, b in zip(places, places[1:], strict=False)]
    assert order[0] == Part("h", 0, 1 << 24)
    assert max(gaps) <= 5 and places[-1] > 0.75 * len(order)
