"""What is launched on a second stream, and that the first waits for it; on any machine."""

from __future__ import annotations

import itertools
import weakref
from contextlib import AbstractContextManager, closing, nullcontext
from typing import Any
from unittest.mock import patch

import pytest
import torch

from torchzk import triton_kernels
from torchzk.params.curves import G1
from torchzk.params.domains import Domain
from torchzk.params.fields import FR
from torchzk.triton_kernels import beside, launch, msm_reduce, ntt_launch, tuning
from torchzk.triton_kernels.launch import NOTING, Launch, Log
from torchzk.triton_kernels.tuning import Number, number_for
from triton_kernels.rehearsal import ARCH, rehearsing
from triton_kernels.samples import tuned

META = torch.device("meta")
HALVES = ("ntt halves", FR.n_limbs, ARCH)


def said(log: Log) -> list[str]:
    """A word for each launch of a pass, and for each mark."""
    return [x if isinstance(x, str) else "there" if x.is_beside else "here" for x in log]


def noted(name: str, log_n: int) -> Log:
    """What a transform launches."""
    x = torch.empty(8, 1 << log_n, dtype=torch.int32, device=META)
    call = getattr(triton_kernels, name)
    with rehearsing():
        # what makes tables is none of it
        call(x, Domain(log_n))
        with launch.noting() as log:
            call(x, Domain(log_n))
    return log


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Halves are worth it at every size."""
    monkeypatch.setitem(tuning.NUMBERS, HALVES, Number(((0, 1),), "test"))


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize(
    ("name", "before", "halves", "after"),
    [("ntt_dif", 1, 3, 0), ("intt_dit", 1, 2, 1)],
)
def test_all_passes_but_the_first_and_the_top_one_are_in_halves(
    name: str, before: int, halves: int, after: int
) -> None:
    log = noted(name, 12)
    pairs = ["there", "here"] * halves
    assert said(log) == ["here"] * before + ["fork", *pairs, "join"] + ["here"] * after
    at = 5 if name == "ntt_dif" else 6
    lanes = [tuple(x.args[at : at + 2]) for x in log if isinstance(x, Launch)]
    whole, both = (0, 512), [(256, 256), (0, 256)]
    assert lanes == [whole] * before + both * halves + [whole] * after


@pytest.mark.usefixtures("always")
def test_one_pass_is_whole() -> None:
    assert said(noted("ntt_dif", 3)) == ["here"]


def test_both_ends_of_every_range_of_sizes() -> None:
    steps = tuning.NUMBERS[HALVES].steps
    assert steps[0] == (0, 0)
    for least, value in steps[1:]:
        for log_n, expected in ((least - 1, 1 - value), (least, value)):
            assert number_for(*HALVES, log_n) == expected
            for name in ("ntt_dif", "intt_dit"):
                forks = [word for word in said(noted(name, log_n)) if word in ("fork", "join")]
                assert forks == ["fork", "join"] * expected


@pytest.mark.usefixtures("always")
def test_a_fork_is_joined_where_a_launch_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: Any, **constants: Any) -> None:
        if NOTING.is_beside:
            raise RuntimeError("no launch")

    monkeypatch.setattr(ntt_launch, "launch_pass", fail)
    x = torch.empty(8, 4096, dtype=torch.int32, device=META)
    with (
        launch.noting() as log,
        pytest.raises(RuntimeError, match="no launch"),
        closing(ntt_launch.Halves(x, 4)) as halves,
    ):
        for i in (3, 2):
            halves.launch(i, None, 512, (), ())
    assert said(log) == ["fork", "join"] and not NOTING.is_beside


class Stream:
    """Stands in for a stream: what it waited for, what is there."""

    made: list[Stream] = []

    def __init__(self, device: torch.device, priority: int = 0) -> None:
        self.device, self.priority, self.cuda_stream = device, priority, 100 + len(self.made)
        self.waited: list[Stream] = []
        self.made.append(self)

    def wait_stream(self, other: Stream) -> None:
        self.waited.append(other)


def test_a_stream_has_one_beside_it(monkeypatch: pytest.MonkeyPatch) -> None:
    current: dict[torch.device, Stream] = {}
    entered: list[Stream] = []

    def enter(stream: Stream) -> AbstractContextManager[None]:
        entered.append(stream)
        return nullcontext()

    monkeypatch.setattr(Stream, "made", [])
    monkeypatch.setattr(beside, "_SIDES", {})
    monkeypatch.setattr(torch.cuda, "Stream", Stream)
    monkeypatch.setattr(torch.cuda, "stream", enter)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: current[device])
    one, two = torch.device("cuda", 0), torch.device("cuda", 1)
    streams = [Stream(one, -1), Stream(one), Stream(two)]
    sides: list[Stream] = []
    for stream in (*streams, streams[0]):
        device = stream.device
        current[device] = stream
        handle = beside.fork(device)
        side = next(s for s in Stream.made if s.cuda_stream == handle)
        assert side not in streams and side.waited[-1] is stream
        assert (side.device, side.priority) == (device, stream.priority)
        with beside.beside(device):
            assert entered[-1] is side and NOTING.is_beside
        assert len(stream.waited) == sides.count(side)
        beside.join(device)
        assert stream.waited == [side] * (sides.count(side) + 1) and not NOTING.is_beside
        sides.append(side)
    assert sides[3] is sides[0] and len(set(sides)) == 3 and len(Stream.made) == 6


def sums_by_bit() -> None:
    """Of three arrays of 2^12 points."""
    arrays = torch.empty(3, 1 << 12, *G1.row_shape, dtype=torch.int32, device=META)
    assert msm_reduce.sums_by_bit(arrays, G1).shape == (3, 12, 48)


def test_sums_of_rows_and_of_columns_are_beside_each_other() -> None:
    """64 points become 8 and one; of 64 sums, those with a bit become 4 and one."""
    with rehearsing():
        for value, expected in (
            (0, ["here"] * 8),
            (1, ["fork", *["there"] * 4, *["here"] * 4, "join"]),
        ):
            with tuned({"sums beside": value}), launch.noting() as log:
                sums_by_bit()
            assert said(log) == expected
            # the first of either reads the points, and each what the one before wrote
            runs = [x.args for x in log if isinstance(x, Launch)]
            for half in (runs[:4], runs[4:]):
                for before, after in itertools.pairwise(half):
                    assert after[1]._base is before[0]


def test_no_memory_comes_or_goes_between_fork_and_join(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[weakref.ref[torch.Tensor]] = []
    forked: list[bool] = []
    fork, join, make = beside.fork, beside.join, torch.empty

    def empty(*args: Any, **kwargs: Any) -> torch.Tensor:
        assert not forked
        found = make(*args, **kwargs)
        made.append(weakref.ref(found))
        return found

    def forks(device: torch.device) -> int | None:
        forked.append(True)
        return fork(device)

    def joins(device: torch.device) -> None:
        join(device)
        assert len(made) == 9 and all(tensor() is not None for tensor in made)
        forked.clear()

    monkeypatch.setattr(beside, "fork", forks)
    monkeypatch.setattr(beside, "join", joins)
    with rehearsing(), patch.object(torch, "empty", empty):
        sums_by_bit()
    assert made and not forked


def test_sums_are_joined_where_a_launch_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: Any, **constants: Any) -> None:
        if NOTING.is_beside:
            raise RuntimeError("no launch")

    with rehearsing(), launch.noting() as log:
        monkeypatch.setattr(msm_reduce, "launch", fail)
        with pytest.raises(RuntimeError, match="no launch"):
            sums_by_bit()
    assert said(log) == ["fork", "join"] and not NOTING.is_beside
