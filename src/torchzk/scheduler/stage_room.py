"""How much of a budget the multi-scalar multiplications get: parts of a key, and scratch."""

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
_SLOTS = 5
"""Parts on the device when h goes side by side with the others: one that is worked on, and as many
as come over the link meanwhile. With four a link waits now and then, with six it is no faster."""
_LEAST_SIDE_BY_SIDE = 1 << 22
"""Points: of fewer, h takes longer than what is saved."""
_LONG = 1 << 24
"""Points: of shorter parts h takes noticeably longer, so that they are no remedy for anything."""
_FEWEST_PARTS = 4
"""Of the longest query, side by side: one of them is there before anything can begin."""
_ONE, _OTHER, _OF_G2 = 1.0, 13.0, 3.0
"""Additions that a point costs whose scalar is 1, that another costs (windows of 20 bits), and how
much more the same is in G2."""
_SPARE = 16
"""Of so many bytes one is kept free beside a ring where parts can be shorter instead: the allocator
leaves gaps between tensors of several lengths, and to close them it waits for the device."""
_LINK = 5.0
"""Additions in the time that a point of G1 takes to come from the host (55 GB/s, an H200)."""


def room_for(account: StageBytes, backend: BackendName, budget: int) -> Room:
    """The longest parts that leave room for their work; the least where nothing fits."""
    if account.sizes.on_cpu:
        return Room(in_turn=account.in_turn)
    if account.stays:
        return _resident(account, budget, _MOST_SCRATCH[backend])
    room = _shrunk(account, _streamed(account, budget, _MOST_SCRATCH[backend]), budget)
    return replace(room, early_slots=_early_slots(account, room, budget - budget // _SPARE))


def waits_for_link(account: StageBytes) -> bool:
    """Whether the points of a query come slower than they are added, one query after another."""
    costs = zip(QUERIES.values(), _costs(account), strict=True)
    return any(cost < _LINK * curve.degree for curve, cost in costs)


def _resident(account: StageBytes, budget: int, most: int) -> Room:
    """With the key there: whole queries if they fit, G1 and G2 apart."""
    free = budget - max(account.before(name) for name in QUERIES)
    lengths = account.sizes.lengths
    g1, scratch = _piece(
        account, G1, max(lengths.h, lengths.l, lengths.a, lengths.b_g1), free, most
    )
    g2, _ = _piece(account, G2, lengths.b_g2, free, scratch)
    return _shrunk(account, Room(g1, g2, scratch, account.in_turn), budget)


def _piece(
    account: StageBytes, curve: Curve, longest: int, free: int, most: int
) -> tuple[int, int]:
    """Points at a time, and the scratch that is left for them."""
    needs = account.needs
    pieces = 1
    while True:
        piece = -(-max(longest, 1) // pieces)
        left = free - ELEMENT * piece
        windows = 1 if pieces == 1 else _WINDOWS
        wanted = min(windows * needs.msm_window_bytes(piece, curve), most)
        if left >= wanted or piece <= _LEAST_PIECE:
            scratch = max(min(left, most), _LEAST_SCRATCH)
            return piece, needs.msm_limit(piece, curve, scratch)
        pieces += 1 + pieces // 8


def _streamed(account: StageBytes, budget: int, most: int) -> Room:
    """With a ring of buffers, which holds half as many points of G2."""
    needs, lengths = account.needs, account.sizes.lengths
    whole = budget - budget // _SPARE
    free = whole - max(account.before(name) for name in QUERIES)
    longest = max(lengths.h, lengths.l, lengths.a, lengths.b_g1, 2 * lengths.b_g2, 1)
    pieces = _FEWEST_PARTS if account.side_by_side else 1
    while True:
        piece = -(-longest // pieces)
        room = Room(
            g1_points=piece,
            g2_points=-(-piece // 2),
            in_turn=account.in_turn,
            slots=_SLOTS if account.side_by_side else 2,
            costs=_costs(account) if account.side_by_side else (),
        )
        left = free - account.ring(room, room.slots) - ELEMENT * piece
        windows = [needs.msm_window_bytes(room.points(curve), curve) for curve in (G1, G2)]
        # of long parts two are to be there early, or the sums wait for the first of them
        late = account.side_by_side and piece > _LONG and _early_slots(account, room, whole) < 2
        enough = left >= min(_WINDOWS * max(windows), most)
        if (enough and not late) or piece <= _least_piece(account):
            scratch = max(min(left, most), _LEAST_SCRATCH)
            limits = [needs.msm_limit(room.points(curve), curve, scratch) for curve in (G1, G2)]
            return replace(room, scratch_bytes=max(limits))
        pieces += 1 + pieces // 8


def _early_slots(account: StageBytes, room: Room, budget: int) -> int:
    """Parts of the key that fit beside the quotient."""
    early = room.slots
    while early and account.until_sums(replace(room, early_slots=early)) > budget:
        early -= 1
    return early


def _shrunk(account: StageBytes, room: Room, budget: int) -> Room:
    """Less room while a stage exceeds the budget: sums of ones and tails keep no limit."""
    least = _least_piece(account)
    while True:
        over = [name for name in QUERIES if account.sum_bytes(name, room) > budget]
        if not over and account.again(replace(room, early_slots=0)) <= budget:
            return room
        g1, g2 = (_less(points, least) for points in (room.g1_points, room.g2_points))
        if not account.stays:
            # parts of one length, whichever query is too large
            smaller = replace(room, g1_points=g1, g2_points=min(g2, -(-g1 // 2)))
        elif any(QUERIES[name] is G1 for name in over):
            smaller = replace(room, g1_points=g1)
        else:
            smaller = replace(room, g2_points=g2)
        if smaller == room:
            smaller = replace(room, scratch_bytes=_less(room.scratch_bytes, _LEAST_SCRATCH))
        if smaller == room:
            return room
        room = smaller


def _less(n: int, least: int) -> int:
    return max(n * 7 // 8, min(n, least))


def _least_piece(account: StageBytes) -> int:
    """Points of G1 that are worth a part."""
    return _LEAST_SIDE_BY_SIDE if account.side_by_side else _LEAST_PIECE


def _costs(account: StageBytes) -> tuple[float, ...]:
    """What a point of each query costs, in additions of G1."""
    found = []
    for name, curve in QUERIES.items():
        n = max(1, account.sizes.lengths.of(name))
        share = 1.0 if name == "h" else account.others(name, n) / n
        additions = _OTHER * share + _ONE * (1 - share)
        found.append(round(additions * (_OF_G2 if curve is G2 else 1.0), 3))
    return tuple(found)
