"""What a lane's name says, and the order in which lanes are drawn."""

from __future__ import annotations

import random

import pytest

from torchzk.scheduler.intervals import around, inside, merged, total
from torchzk.scheduler.lanes import LaneKind, in_order, lane_of

ORDER = [
    "cuda:0 kernels, worker 0",
    "cuda:0 kernels, worker 1",
    "cuda:0 mem lock",
    "cuda:0 mem lock waits",
    "cuda:0 compute lock",
    "cuda:0 compute lock waits",
    "cuda:0 worker 0",
    "cuda:0 worker 2",
    "cuda:0 worker 10",
    "cuda:1 compute lock",
    "cuda:1 worker 0",
    "reading 0",
    "checking 0",
    "finishing 0",
    "host",
    "sector 7 partition 3",
    "partition 12",
]


@pytest.mark.parametrize(
    ("name", "kind", "device"),
    [
        ("cuda:1", LaneKind.KERNELS, "cuda:1"),
        ("cuda:0 (2)", LaneKind.KERNELS, "cuda:0"),
        ("cuda:0 kernels, worker 1", LaneKind.KERNELS, "cuda:0"),
        ("device 0 kernels", LaneKind.KERNELS, "device 0"),
        ("device 12 memory lock", LaneKind.LOCK, "device 12"),
        ("cpu mem lock waits", LaneKind.WAITS, "cpu"),
        ("cpu worker 3", LaneKind.WORKER, "cpu"),
        ("device 0 uploads", LaneKind.UPLOADS, "device 0"),
        ("partition 3", LaneKind.PARTITION, None),
        ("f01000 7 partition 3", LaneKind.PARTITION, None),
        ("reading 0", LaneKind.STATION, None),
        ("host", LaneKind.HOST, None),
        ("cuda:0 worker", LaneKind.HOST, None),
        ("a lock", LaneKind.HOST, None),
    ],
)
def test_a_name_says_kind_and_device(name: str, kind: LaneKind, device: str | None) -> None:
    lane = lane_of(name)
    assert (lane.kind, lane.device) == (kind, device)
    assert lane.of_lock == (kind in (LaneKind.LOCK, LaneKind.WAITS))


def test_lanes_are_drawn_in_order_whatever_came_first() -> None:
    n_host = sum(lane_of(name).kind in (LaneKind.HOST, LaneKind.PARTITION) for name in ORDER)
    rng = random.Random(3)
    for _ in range(20):
        # the host's own come in order of time
        shuffled = ORDER[:-n_host]
        rng.shuffle(shuffled)
        assert in_order([*shuffled, *ORDER[-n_host:], ORDER[0]]) == ORDER


def test_the_union_of_intervals_is_exact() -> None:
    rng = random.Random(5)
    for _ in range(50):
        starts = [rng.randrange(100) for _ in range(8)]
        intervals = [(s, s + rng.randrange(12)) for s in starts]
        ticks = {t for s, e in intervals for t in range(s, e)}
        union = merged(intervals)
        assert [t for s, e in union for t in range(s, e)] == sorted(ticks)
        assert all(a[1] < b[0] for a, b in zip(union, union[1:], strict=False))
        assert total(union) == len(ticks)
        assert total(inside(union, (20, 60))) == len([t for t in ticks if 20 <= t < 60])
        assert around(union) == (None if not ticks else (min(ticks), max(ticks) + 1))
    assert merged([(0, 2), (4, 6), (9, 10)], slack=2) == ((0, 6), (9, 10))
