"""What lies on a device in each stage of a proof, as `groth16.prover` goes through them.

All figures in bytes, and of the worst values that an assignment can have: all scalars that can are
other than 0 and 1, or all are 1, whichever takes more.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from torchzk.backends import Needs
from torchzk.groth16.keys import QUERIES
from torchzk.groth16.products import ROWS_AT_ONCE
from torchzk.groth16.room import Room
from torchzk.groth16.staging import BUFFER_BYTES
from torchzk.scheduler.circuit_sizes import BlockSize, CircuitSizes

ELEMENT = 32
"""An Fr in limbs."""
_MADE_ON_CPU, _MADE_ON_GPU = 1 << 18, 1 << 22
"""Points of G1 that `groth16.setup` makes at a time."""
_BATCH_ROWS, _BATCH_BYTES = 1 << 23, 120
"""Rows of copies that `groth16.columns` transposes at a time, and what it makes of a row."""
_BASIS_ROWS = 1 << 22
"""Elements of the Lagrange basis that are made at a time."""
_TURNED = 6
"""Copies of a buffer while `row_bytes` turns its bytes into rows."""


@dataclass(frozen=True)
class Stage:
    """A stage by the name of its span, and the most that is on the device in it."""

    name: str
    bytes: int


@dataclass(frozen=True)
class StageBytes:
    """The account of one way of proving a circuit."""

    sizes: CircuitSizes
    needs: Needs
    stays: bool
    """Whether the key lies on the device."""
    in_turn: bool
    """`Room.in_turn`."""
    side_by_side: bool = False
    """Whether h is summed side by side with the other queries: `Room.costs` are given."""
    graph: bool = False
    """Whether the witness is a graph, whose memory stays; not in turn."""

    @cached_property
    def key(self) -> int:
        """The points of a key."""
        row = self.needs.row_bytes
        return sum(self.sizes.lengths.of(name) * row(curve) for name, curve in QUERIES.items())

    @cached_property
    def vector(self) -> int:
        """A vector over the evaluation domain."""
        return ELEMENT * self.sizes.domain.size

    @cached_property
    def assignment(self) -> int:
        """The values of all variables."""
        return ELEMENT * self.sizes.variables

    @cached_property
    def values(self) -> int:
        """Those of a proof's own: in a graph's memory they are there in every stage."""
        return 0 if self.graph else self.assignment

    @cached_property
    def matrices(self) -> int:
        """Of both blocks, which stay once they were multiplied by."""
        blocks = (self.sizes.prologue, self.sizes.block)
        return sum(_matrices(self.needs, block) for block in blocks)

    @cached_property
    def roots(self) -> int:
        """Tables of roots that stay after the quotient."""
        return self.needs.tables_bytes(self.sizes.domain, in_turn=self.in_turn)

    @cached_property
    def kept(self) -> int:
        """What stays after a proof besides the key, whichever way it was made."""
        return self.matrices + self._lists + self.roots

    @cached_property
    def always(self) -> int:
        """There in every stage: the key if it stays, the memory of the witness's graph if it has
        one, matrices, lists, and what no size changes."""
        stays = (self.key if self.stays else 0) + (self.witness if self.graph else 0)
        return self._pieces + self.matrices + self._lists + stays

    @cached_property
    def _pieces(self) -> int:
        return self.needs.pieces_bytes(on_cpu=self.sizes.on_cpu)

    @cached_property
    def given(self) -> int:
        """What the witness is made from, of the one partition that is worked on."""
        return self.sizes.witness.given

    def stages(self, room: Room) -> tuple[Stage, ...]:
        """All of a proof, in order; what earlier proofs left behind is counted in each."""
        early = self.ring(room, room.early_slots)
        first = self.always + self.roots + (self.given if self.graph else self.witness)
        found = [
            Stage("witness", max(first, self.again(room))),
            Stage("products", self.always + self.roots + self._products() + early),
            Stage("quotient", self.always + self._quotient + early),
        ]
        found += [Stage(f"msm {name}", self.sum_bytes(name, room)) for name in QUERIES]
        return tuple(found)

    def until_sums(self, room: Room) -> int:
        """The most that is there before the sums begin, while the first parts are on their way."""
        fixed = max(self.roots + self._products(), self._quotient)
        early = self.always + fixed + self.ring(room, room.early_slots)
        return max(early, self.again(room) if self.side_by_side else 0)

    def sum_bytes(self, name: str, room: Room) -> int:
        """The most that is there while a part of a query is added."""
        return self.before(name) + self.query(name, room)

    def again(self, room: Room) -> int:
        """While the witness is made once more, for the sums; 0 where it is not.

        Side by side that is before they begin, and otherwise after that of h.
        """
        if not self.in_turn:
            return 0
        fixed = self.always + self.roots + self.witness
        if self.side_by_side:
            return fixed + self.vector + self.ring(room, room.early_slots)
        return fixed + self.ring(room, room.slots)

    def before(self, name: str) -> int:
        """What is there when the sum of a query begins, parts of the key not counted."""
        kept = self.always + self.roots + self.given
        inputs = ELEMENT * self.sizes.n_inputs
        others = self.values + self.needs.classes_bytes(self.sizes.n_aux) + inputs
        if self.side_by_side:
            return kept + self.vector + others
        if name == "h":
            return kept + self.vector + (0 if self.in_turn else self.values)
        return kept + others

    def query(self, name: str, room: Room) -> int:
        """What the sum of a query takes at its peak: parts of the key, and work on one of them."""
        piece = min(room.points(QUERIES[name]), self.sizes.lengths.of(name))
        beside = 0
        if self.side_by_side and name == "h":
            beside = max(self._tail(other, room) for other in QUERIES if other != "h")
        return self.ring(room, room.slots) + self.work(name, piece, room) + beside

    def ring(self, room: Room, slots: int) -> int:
        """Buffers for so many parts of the key, each as long as the longest.

        Those of a file are turned from bytes to rows a buffer at a time.
        """
        lengths = self.sizes.lengths
        parts = sum(-(-lengths.of(name) // room.points(QUERIES[name])) for name in QUERIES)
        slots = min(slots, parts)
        if self.stays or not slots:
            return 0
        part = self.part(room)
        return part * slots + _TURNED * min(part, BUFFER_BYTES)

    def part(self, room: Room) -> int:
        """The longest part of the key."""
        lengths, row = self.sizes.lengths, self.needs.row_bytes
        return max(
            row(curve) * min(room.points(curve), lengths.of(name))
            for name, curve in QUERIES.items()
        )

    def work(self, name: str, piece: int, room: Room) -> int:
        """The most that a piece of a query takes, whatever is proven."""
        curve, limit, needs = QUERIES[name], room.scratch_bytes, self.needs
        whole = needs.msm_bytes(piece, curve, limit)
        if name == "h":
            return whole
        # see `query_sums`: a class, two bits of what it is, and the variable's index
        listed = (1 + 1 + 1 + (0 if name == "l" else 4)) * piece
        others = self.others(name, piece)
        # unless there are too few to multiply all
        whole = ELEMENT * piece + max(whole, listed) if 2 * others > piece else 0
        gathered = self._tail(name, room)
        # of the pieces before
        kept = gathered if piece < self.sizes.lengths.of(name) else 0
        tail = gathered // (ELEMENT + needs.row_bytes(curve))
        multiplied = 2 * gathered + needs.msm_bytes(tail, curve, limit)
        added = listed + needs.batch_add_bytes(piece, curve)
        listed += 8 * min(others, piece // 2)
        return max(kept + whole, kept + added, listed + max(3 * gathered, multiplied))

    def _tail(self, name: str, room: Room) -> int:
        """What is gathered of a query before it is multiplied: points and their scalars."""
        curve, n = QUERIES[name], self.sizes.lengths.of(name)
        piece = max(1, min(room.points(curve), n))
        gathered = min(self.others(name, piece), piece // 2) * -(-n // piece)
        points = min(room.tail_points(curve), max(gathered, 1))
        return (ELEMENT + self.needs.row_bytes(curve)) * points

    def others(self, name: str, piece: int) -> int:
        """Scalars of a piece that may be other than 0 and 1: those of the copies it reaches."""
        sizes = self.sizes
        head, own = sizes.numbers
        of_copy = max(1, (sizes.lengths.of(name) - sizes.n_inputs) // max(1, sizes.copies))
        copies = min(sizes.copies, piece // of_copy + 2)
        return min(piece, sizes.n_inputs + head + copies * own)

    def making_key(self) -> int:
        """A development key in the making, its points not counted: see `groth16.setup`.

        Two vectors are there, and a batch of copies and a transposed matrix, or a piece of points:
        its scalars, a table of powers, what is made of them, and the piece before.
        """
        sizes, needs = self.sizes, self.needs
        at_once = _MADE_ON_CPU if sizes.on_cpu else _MADE_ON_GPU
        made = 0
        for name in ("h", "b_g2"):
            curve = QUERIES[name]
            points = min(at_once // curve.degree, sizes.lengths.of(name))
            piece = 4 * ELEMENT * points + needs.fixed_base_bytes(points, curve)
            made = max(made, piece + points * needs.row_bytes(curve))
        transposed = max(
            needs.transposed_bytes(matrix.rows, matrix.terms, block.columns)
            for block in (sizes.prologue, sizes.block)
            for matrix in block.matrices
        )
        rows = max(_BATCH_ROWS, sizes.block.matrices[0].rows)
        batch = _BATCH_BYTES * min(rows, sizes.domain.size)
        # powers, differences, their inverses and products, a piece of the basis at a time
        basis = 7 * ELEMENT * min(_BASIS_ROWS, sizes.domain.size)
        fixed = self._pieces + self.matrices + self.vector + self.assignment
        return fixed + max(transposed + batch, basis, made)

    @cached_property
    def witness(self) -> int:
        """What computing the values of all variables takes, and what it is made from."""
        witness = self.sizes.witness
        return witness.given + witness.scratch + self.assignment

    def _products(self) -> int:
        kept = self.given + self.values
        sizes = self.sizes
        first = max(
            self.needs.preparing_bytes(m.rows, m.terms, block.coefficients)
            for block in (sizes.prologue, sizes.block)
            for m in block.matrices
        )
        rows = sizes.copies * sizes.block.matrices[0].rows
        longest = max(m.longest for m in sizes.block.matrices)
        if not self.in_turn:
            return kept + 3 * self.vector + max(self.needs.spmv_bytes(rows, longest), first)
        # the prologue, then some copies at a time
        rows = min(rows, max(ROWS_AT_ONCE, sizes.block.matrices[0].rows))
        rows = max(rows, sizes.prologue.matrices[0].rows)
        vectors = 3 * ELEMENT * rows
        return kept + vectors + max(self.needs.spmv_bytes(rows, longest), first)

    @cached_property
    def _quotient(self) -> int:
        if self.in_turn:
            return self._quotient_in_turn()
        vectors = self.values + 3 * self.vector
        return self.given + vectors + self.needs.quotient_bytes(self.sizes.domain)

    def _quotient_in_turn(self) -> int:
        domain = self.sizes.domain
        # the second vector is made beside the first, and its assignment before it
        making = self.needs.held_in_turn_bytes(domain) + self.assignment
        making += max(self.sizes.witness.scratch, self.vector)
        return self.given + max(making, self.needs.quotient_in_turn_bytes(domain))

    @cached_property
    def _lists(self) -> int:
        """The variables of a and of b, as long as the blocks, kept from the first proof on."""
        return 2 * 4 * (self.sizes.block.columns + self.sizes.prologue.columns)


def _matrices(needs: Needs, block: BlockSize) -> int:
    return sum(
        needs.matrix_bytes(matrix.rows, matrix.terms, block.coefficients)
        for matrix in block.matrices
    )
