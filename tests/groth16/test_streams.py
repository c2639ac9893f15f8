"""Pieces that are made ahead: in order, in two buffers, and with whatever goes wrong."""

from __future__ import annotations

import threading

import pytest
import torch

from torchzk.errors import KeyFileError, LayoutError
from torchzk.groth16.streams import Mark, ahead, side_stream, steps


def filled(rows: torch.Tensor, start: int, stop: int) -> None:
    index = torch.arange(start, stop, dtype=torch.int32)
    rows.copy_(index.view(-1, 1).expand_as(rows))


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
            assert begun[start + 1].wait(10)
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
    before = threading.active_count()
    for closed_after in (0, 1, 2):
        pieces = ahead(9, 2, (1,), device, filled)
        for _ in range(closed_after):
            next(pieces)
        pieces.close()
    assert threading.active_count() == before


def test_no_step_is_refused(device: torch.device) -> None:
    with pytest.raises(LayoutError, match="at least one point, got 0"):
        next(ahead(9, 0, (1,), device, filled))


def test_marks_and_streams_may_be_used_anywhere(device: torch.device) -> None:
    side = side_stream(device)
    rows = torch.zeros(3, dtype=torch.int32, device=device)
    start = Mark.here(device)
    with side.current():
        start.hold(device)
        rows += 1
        done = Mark.here(device)
    done.wait()
    assert rows.tolist() == [1, 1, 1]
    side.join()
    assert side_stream(device) is side
