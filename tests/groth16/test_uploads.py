"""Pieces that are made ahead: in order, in a ring of buffers, and with whatever goes wrong."""

from __future__ import annotations

import threading
import weakref
from typing import ClassVar

import pytest
import torch

from torchzk.errors import KeyFileError, LayoutError
from torchzk.groth16 import uploads
from torchzk.groth16.streams import steps
from torchzk.groth16.uploads import Uploads, ahead


def filled(rows: torch.Tensor, start: int, stop: int) -> None:
    index = torch.arange(start, stop, dtype=torch.int32)
    rows.copy_(index.view(-1, 1).expand_as(rows))


def number_of(rows: torch.Tensor, number: int) -> None:
    rows.fill_(number)


@pytest.mark.parametrize("n, step", [(0, 3), (1, 3), (3, 3), (7, 3), (8, 2), (5, 100)])
def test_pieces_come_in_order(n: int, step: int, device: torch.device) -> None:
    got, where = [], set()
    for start, stop, rows in ahead(n, step, (2,), device, filled):
        assert rows.shape == (stop - start, 2) and rows.device.type == device.type
        got.append((start, stop))
        where.add(rows.data_ptr())
        assert rows.tolist() == [[i, i] for i in range(start, stop)]
    assert got == list(steps(n, step))
    assert len(where) == min(2, len(got))


def test_the_next_piece_is_made_while_one_is_used(device: torch.device) -> None:
    begun = [threading.Event() for _ in range(4)]
    asked = 0

    def fill(rows: torch.Tensor, start: int, stop: int) -> None:
        begun[start].set()
        # the piece before the last one was let go first
        assert start - asked <= 1
        filled(rows, start, stop)

    for start, _, rows in ahead(4, 1, (1,), device, fill):
        if start < 3:
            assert begun[start + 1].wait(120)
            # and this one stays as it is
            assert rows.tolist() == [[start]]
        asked += 1


def test_a_fault_takes_the_place_of_its_piece(device: torch.device) -> None:
    def fill(rows: torch.Tensor, start: int, stop: int) -> None:
        if start >= 4:
            raise KeyFileError("torn")
        filled(rows, start, stop)

    seen = []
    with pytest.raises(KeyFileError, match="torn"):
        for start, _, _ in ahead(9, 2, (1,), device, fill):
            seen.append(start)
    assert seen == [0, 2]


def test_who_stops_early_leaves_no_thread(device: torch.device) -> None:
    before = set(threading.enumerate())
    for closed_after in (0, 1, 2):
        pieces = ahead(9, 2, (1,), device, filled)
        for _ in range(closed_after):
            next(pieces)
        pieces.close()
    assert set(threading.enumerate()) <= before


def test_no_step_is_refused(device: torch.device) -> None:
    with pytest.raises(LayoutError, match="at least one point, got 0"):
        next(ahead(9, 0, (1,), device, filled))


class Recorded:
    """Marks that keep a common diary instead of a stream's."""

    diary: ClassVar[list[tuple[str, str, int]]] = []
    """(thread, what, number of the mark or of the piece), in order."""

    def __init__(self, number: int) -> None:
        self.number = number

    @classmethod
    def note(cls, what: str, number: int) -> None:
        is_main = threading.current_thread() is threading.main_thread()
        cls.diary.append(("main" if is_main else "side", what, number))

    @classmethod
    def here(cls, device: torch.device) -> Recorded:
        cls.note("mark", len(cls.diary))
        return cls(len(cls.diary) - 1)

    def hold(self, device: torch.device) -> None:
        self.note("hold", self.number)


def test_nothing_is_lent_before_there_is_a_buffer(device: torch.device) -> None:
    with Uploads([(2, 3)] * 3, device, lambda i, rows: number_of(rows, i), 0) as ring:
        with pytest.raises(LayoutError, match="no piece after 0 of 3 is on its way"):
            ring.take()
        ring.widen(2)
        assert [ring.take().tolist() for _ in range(3)] == [[[i] * 3] * 2 for i in range(3)]


@pytest.mark.parametrize("slots", [1, 2, 3, 7])
def test_what_is_lent_stays_as_it_is(slots: int, device: torch.device) -> None:
    """However long the caller takes, and however fast the others come."""
    filled_up_to = [threading.Event() for _ in range(12)]

    def fill(number: int, rows: torch.Tensor) -> None:
        rows.fill_(number)
        filled_up_to[number].set()

    with Uploads([(5, 2)] * 12, device, fill, slots) as ring:
        for number in range(12):
            rows = ring.take()
            if number + slots - 1 < 12:
                assert filled_up_to[number + slots - 1].wait(120)
            assert number + slots >= 12 or not filled_up_to[number + slots].is_set()
            assert rows.eq(number).all()


def test_buffers_are_let_go_as_they_are_no_longer_needed(device: torch.device) -> None:
    with Uploads([(4, 2)] * 5, device, lambda number, rows: None, 3) as ring:
        buffers = [weakref.ref(buffer) for buffer, *_ in ring._coming]
        alive = []
        for _ in range(5):
            ring.take()
            alive.append(sum(buffer() is not None for buffer in buffers))
        assert alive == [3, 3, 3, 2, 1]
    assert not any(buffer() is not None for buffer in buffers)


@pytest.mark.parametrize("early, slots", [(2, 2), (1, 1), (0, 3), (1, 4), (5, 5), (2, 30)])
def test_no_piece_is_written_or_read_too_early(
    early: int, slots: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a GPU would have to wait for, by the order in which marks are made and held."""
    monkeypatch.setattr(uploads, "Mark", Recorded)
    monkeypatch.setattr(Recorded, "diary", diary := [])
    where: list[int] = []

    def fill(number: int, rows: torch.Tensor) -> None:
        assert rows.shape == (number % 3 + 1, 2)
        Recorded.note("fill", number)

    shapes = [(number % 3 + 1, 2) for number in range(9)]
    with Uploads(shapes, torch.device("cpu"), fill, early) as ring:
        ring.widen(slots)
        for number in range(9):
            where.append(ring.take().data_ptr())
            Recorded.note("use", number)
        with pytest.raises(LayoutError, match="no piece after 9 of 9"):
            ring.take()
    assert len(set(where)) <= slots

    def held(thread: str, before: int) -> int:
        """When the last mark was made that a thread had held until then."""
        return max(n for who, what, n in diary[:before] if (who, what) == (thread, "hold"))

    for piece in range(9):
        filled_at = diary.index(("side", "fill", piece))
        used_at = diary.index(("main", "use", piece))
        # the reader waits for the copy, and the copy for the reader of the piece before the last
        assert held("main", used_at) > filled_at
        # whoever had the buffer before
        earlier = [k for k in range(piece) if where[k] == where[piece]]
        assert (len(earlier) > 0) == (piece >= slots)
        if earlier:
            assert held("side", filled_at) > diary.index(("main", "use", earlier[-1]))
        else:
            assert diary[held("side", filled_at)][:2] == ("main", "mark")
