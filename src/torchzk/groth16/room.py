"""How much of a device a proof may take at a time. Its bytes do not depend on it."""

from __future__ import annotations

from dataclasses import dataclass

from torchzk.params.curves import G1, Curve

_FEWEST = 1 << 20


@dataclass(frozen=True)
class Room:
    """What a plan grants. The defaults suit a CPU; a GPU is idle half the time on so few points."""

    g1_points: int = 1 << 20
    """Points of a query in G1 that are worked on at a time."""
    g2_points: int = 1 << 20
    scratch_bytes: int = 1 << 29
    """Scratch of one multi-scalar multiplication, points and scalars not counted."""
    in_turn: bool = False
    """Whether products are made one after another, and the assignment again for each."""
    slots: int = 2
    """Parts of a key that are on the device at a time, where it lies elsewhere."""
    early_slots: int = 2
    """As many while the quotient is made, at most `slots`."""
    costs: tuple[float, ...] = ()
    """What a point of each of `QUERIES` costs, of any unit: h goes side by side with the others,
    so that costs come as evenly as bytes. Without costs queries go one after another."""

    def points(self, curve: Curve) -> int:
        """Points of a query in `curve` that are worked on at a time."""
        return self.g1_points if curve is G1 else self.g2_points

    def tail_points(self, curve: Curve) -> int:
        """Points with scalars other than 0 and 1 that are gathered before they are multiplied."""
        return max(_FEWEST, self.points(curve) // 8)
