"""How much of a budget the multi-scalar multiplications get: pieces of points, and scratch."""

from __future__ import annotations

from dataclasses import replace

from torchzk.backends import BackendName
from torchzk.groth16.keys import QUERIES
from torchzk.groth16.room import Room
from torchzk.params.curves import G1, G2, Curve
from torchzk.scheduler.stage_bytes import ELEMENT, StageBytes

_MOST_SCRATCH: dict[BackendName, int] = {"torch": 1 << 29, "triton": 40 << 30}
"""As much as each backend's multiplication has been measured with; more windows at once than
that bring nothing."""
_WINDOWS = 2
"""Windows that a piece's scratch has room for: with fewer the rounds of pairs are short, with
more the pieces."""
_LEAST_PIECE = 1 << 18
_LEAST_SCRATCH = 1 << 28


def room_for(account: StageBytes, backend: BackendName, budget: int) -> Room:
    """The longest pieces that leave room for their work; the least where nothing fits."""
    if account.sizes.on_cpu:
        return Room(in_turn=account.in_turn)
    free = budget - max(account.before(name) for name in QUERIES)
    most = _MOST_SCRATCH[backend]
    lengths = account.sizes.lengths
    longest = max(lengths.h, lengths.l, lengths.a, lengths.b_g1, 1)
    g1, scratch = _piece(account, G1, longest, free, most)
    g2, _ = _piece(account, G2, max(lengths.b_g2, 1), free, scratch)
    room = Room(g1, g2, scratch, account.in_turn)
    return _shrunk(account, room, budget)


def _piece(
    account: StageBytes, curve: Curve, longest: int, free: int, most: int
) -> tuple[int, int]:
    """Points at a time, and the scratch that is left for them."""
    needs = account.needs
    pieces = 1
    while True:
        piece = -(-longest // pieces)
        left = free - account.pieces(curve, longest, piece) - ELEMENT * piece
        windows = 1 if account.stays and pieces == 1 else _WINDOWS
        wanted = min(windows * needs.msm_window_bytes(piece, curve), most)
        if left >= wanted or piece <= _LEAST_PIECE:
            scratch = max(min(left, most), _LEAST_SCRATCH)
            return piece, needs.msm_limit(piece, curve, scratch)
        pieces += 1 + pieces // 8


def _shrunk(account: StageBytes, room: Room, budget: int) -> Room:
    """Less room while a stage exceeds the budget: sums of ones and tails keep no limit."""
    while True:
        over = [
            name for name in QUERIES if account.before(name) + account.query(name, room) > budget
        ]
        if not over:
            return room
        g1 = any(QUERIES[name] is G1 for name in over)
        points = room.g1_points if g1 else room.g2_points
        if points <= _LEAST_PIECE and room.scratch_bytes <= _LEAST_SCRATCH:
            return room
        if points > _LEAST_PIECE:
            smaller = max(points * 7 // 8, _LEAST_PIECE)
            room = replace(room, g1_points=smaller) if g1 else replace(room, g2_points=smaller)
        else:
            room = replace(room, scratch_bytes=max(room.scratch_bytes * 7 // 8, _LEAST_SCRATCH))
