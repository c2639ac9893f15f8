"""How long locks were held and waited for, by the spans they leave."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from torchzk.scheduler.lanes import LaneKind, in_order, lane_of
from torchzk.timeline import Span

_SUFFIX = " waits"


@dataclass(frozen=True)
class LockUse:
    """One lock in a run."""

    name: str
    device: str
    holds: int
    held_seconds: float
    waited_seconds: float
    """By all who waited, together."""
    longest_wait: float


def lock_uses(spans: Iterable[Span]) -> list[LockUse]:
    """Locks in the order in which they are drawn."""
    lanes: dict[str, list[Span]] = {}
    for span in spans:
        if lane_of(span.lane).of_lock:
            lanes.setdefault(span.lane, []).append(span)
    uses = []
    for name in in_order(lanes):
        lane = lane_of(name)
        if lane.kind is LaneKind.LOCK and lane.device is not None:
            held = [span.seconds for span in lanes[name]]
            waits = [span.seconds for span in lanes.get(name + _SUFFIX, [])]
            uses.append(
                LockUse(name, lane.device, len(held), sum(held), sum(waits), max(waits, default=0))
            )
    return uses
