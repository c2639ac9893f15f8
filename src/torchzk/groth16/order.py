"""In which order a proof takes the parts of a key's queries. Its bytes do not depend on it.

Where a key comes over a link, h costs the device much for its bytes and the others little. Side by
side they keep both busy; one after another, each waits for the other in turn.
"""

from __future__ import annotations

from collections import deque

from torchzk.groth16.keys import QUERIES, QueryLengths
from torchzk.groth16.room import Room
from torchzk.groth16.streams import Part, steps


def part_order(lengths: QueryLengths, room: Room) -> tuple[Part, ...]:
    """All points of all queries, each query's from first to last, in parts of the room's length.

    The queries other than h come one after another, so that no more than two are under way.
    With `room.costs` a part of h comes wherever the share of all costs that is done is no larger
    than the share of all bytes that is there.
    """
    parts = {
        name: [
            Part(name, start, stop) for start, stop in steps(lengths.of(name), room.points(curve))
        ]
        for name, curve in QUERIES.items()
    }
    h = deque(parts.pop("h"))
    others = deque(part for name in parts for part in parts[name])
    if not room.costs:
        return (*h, *others)
    cost_of = dict(zip(QUERIES, room.costs, strict=True))
    all_bytes = sum(map(_size, (*h, *others)))
    all_costs = sum(_points(part) * cost_of[part.query] for part in (*h, *others))
    there, done = 0, 0.0
    order = []
    while h and others:
        side = h if done * all_bytes <= there * all_costs else others
        part = side.popleft()
        there += _size(part)
        done += _points(part) * cost_of[part.query]
        order.append(part)
    return (*order, *h, *others)


def _points(part: Part) -> int:
    return part.stop - part.start


def _size(part: Part) -> int:
    """Bytes, in units of a coordinate."""
    return _points(part) * QUERIES[part.query].degree
