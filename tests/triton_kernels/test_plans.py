"""Plans: what is noted of launches, and what is started again; on any machine."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from contextlib import nullcontext
from types import SimpleNamespace

import pytest
import torch

from torchzk import triton_kernels
from torchzk.params.domains import Domain
from torchzk.triton_kernels import beside, launch, tuning
from torchzk.triton_kernels.graphs import GRAPHS, stretches, touched
from torchzk.triton_kernels.launch import NOTING
from torchzk.triton_kernels.plans import Plans, Recipe, apart, note_steps
from torchzk.triton_kernels.tuning import Number
from triton_kernels.rehearsal import rehearsing

Call = tuple[object, ...]
STREAM = 7


class Kernels:
    """Stands in for compiled kernels: notes what is started by a plan, and with what."""

    def __init__(self) -> None:
        self.made = 0
        self.fails = ""
        self.started: list[Call] = []

    def launch(self, name: str, *args: object) -> None:
        def start(*given: object, stream: int) -> None:
            self.started.append((name, stream, *given))
            if name == self.fails:
                raise RuntimeError("no launch")

        assert NOTING.log is not None
        NOTING.log.append(launch.Launch(start, args, NOTING.is_beside))


@pytest.fixture
def kernels(monkeypatch: pytest.MonkeyPatch) -> Kernels:
    monkeypatch.setattr(launch, "can_be_noted", lambda device: True)
    monkeypatch.setattr(launch, "on_device", lambda device: nullcontext())
    monkeypatch.setattr(launch, "stream_on", lambda device: STREAM)
    return Kernels()


def vector(n: int = 4) -> torch.Tensor:
    return torch.zeros(8, n, dtype=torch.int32)


def recipe(kernels: Kernels, table: torch.Tensor) -> Recipe:
    def write(out: torch.Tensor, _: torch.Tensor, room: torch.Tensor, *ab: torch.Tensor) -> None:
        a, b = ab
        kernels.launch("first", room, a, table, 3, "constant")
        kernels.launch("second", out, room, b, 4)

    kernels.made += 1
    return Recipe(2, write)


def test_only_the_tensors_of_a_call_change(kernels: Kernels) -> None:
    plans, table = Plans(4), vector(2)
    x = vector()
    # one tensor as both inputs: the next call has two
    plans.run("key", lambda: recipe(kernels, table), x, x)
    assert kernels.started == [] and kernels.made == len(plans) == 1
    for _ in range(2):
        kernels.started.clear()
        a, b = vector(), vector()
        out = plans.run("key", lambda: recipe(kernels, table), a, b)
        (*first, three, constant), (*second, four) = kernels.started
        room = first[2]
        assert first == ["first", STREAM, room, a.data_ptr(), table.data_ptr()]
        assert second == ["second", STREAM, out.data_ptr(), room, b.data_ptr()]
        assert (three, constant, four) == (3, "constant", 4)
        assert out.shape == a.shape and room not in (out.data_ptr(), a.data_ptr(), b.data_ptr())
    assert kernels.made == 1


def test_keys_and_shapes_have_plans_of_their_own(kernels: Kernels) -> None:
    plans, table = Plans(2), vector(2)
    for key, n, made in (
        ("a", 4, 1),
        ("a", 4, 1),
        ("b", 4, 2),
        ("b", 5, 3),
        ("b", 4, 3),
        ("a", 4, 4),
    ):
        plans.run(key, lambda: recipe(kernels, table), vector(n), vector(n))
        assert (kernels.made, len(plans)) == (made, min(made, 2))
    plans.drop()
    assert len(plans) == 0


def test_nothing_on_the_device_is_kept(kernels: Kernels) -> None:
    plans, tables = Plans(2), [vector(2)]
    a, b = vector(), vector()
    out = plans.run("key", lambda: recipe(kernels, tables[0]), a, b)
    gone = [weakref.ref(x) for x in (a, b, out, tables[0])]
    del a, b, out, tables[0]
    assert [x() for x in gone] == [None] * 4
    # so it is made again, with another table
    tables.append(vector(2))
    for made in (2, 2):
        plans.run("key", lambda: recipe(kernels, tables[0]), vector(), vector())
        assert kernels.made == made
    assert kernels.started[0][4] == tables[0].data_ptr()


@pytest.fixture
def streams(kernels: Kernels, monkeypatch: pytest.MonkeyPatch) -> None:
    """What plans do to streams is noted among the kernels that they start."""

    def fork(device: torch.device) -> int:
        kernels.started.append(("fork", STREAM))
        return STREAM + 1

    def join(device: torch.device) -> None:
        kernels.started.append(("join", STREAM))

    fakes = SimpleNamespace(fork=fork, join=join)
    monkeypatch.setattr("torchzk.triton_kernels.plans.beside", fakes)


def forked(kernels: Kernels) -> Recipe:
    """One kernel beside another, and one behind both."""

    def write(out: torch.Tensor, _: torch.Tensor, x: torch.Tensor) -> None:
        beside.fork(x.device)
        with beside.beside(x.device):
            kernels.launch("there", out, x)
        kernels.launch("here", out, x)
        beside.join(x.device)
        kernels.launch("after", out, x)

    return Recipe(1, write)


@pytest.mark.usefixtures("streams")
def test_what_runs_beside(kernels: Kernels) -> None:
    kept = Plans(1)
    for _ in range(2):
        kernels.started.clear()
        kept.run("key", lambda: forked(kernels), vector())
    assert [started[:2] for started in kernels.started] == [
        ("fork", STREAM),
        ("there", STREAM + 1),
        ("here", STREAM),
        ("join", STREAM),
        ("after", STREAM),
    ]


@pytest.mark.usefixtures("streams")
@pytest.mark.parametrize("name", ["there", "here", "after"])
def test_a_fork_is_joined_where_a_launch_fails(kernels: Kernels, name: str) -> None:
    """Once: the tensors that it works on are let go of."""
    kept = Plans(1)
    kept.run("key", lambda: forked(kernels), vector())
    kernels.fails = name
    with pytest.raises(RuntimeError, match="no launch"):
        kept.run("key", lambda: forked(kernels), vector())
    names = [started[0] for started in kernels.started]
    assert names[-1] == "join" if name != "after" else names[-2:] == ["join", "after"]
    assert (names.count("fork"), names.count("join")) == (1, 1)


def test_a_view_of_a_tensor_is_refused(kernels: Kernels) -> None:
    """Its address would be taken for a constant's."""

    def write(out: torch.Tensor, _: torch.Tensor, x: torch.Tensor) -> None:
        kernels.launch("first", out, x[4:])

    with pytest.raises(ValueError, match="as they are"):
        Plans(1).run("key", lambda: Recipe(1, write), vector())


def test_launches_of_others_are_not_noted() -> None:
    with launch.noting() as outer:
        with launch.noting() as inner:
            assert NOTING.log is inner
        assert NOTING.log is outer
    assert NOTING.log is None


@pytest.mark.parametrize("halves", [0, 1])
@pytest.mark.parametrize(
    ("name", "n_inputs"),
    [("ntt_dif", 1), ("intt_dit", 1), ("ntt", 1), ("intt", 1), ("quotient", 3)],
)
def test_one_launch_reads_an_input_and_one_writes_the_output(
    name: str, n_inputs: int, halves: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All between them is in rooms of the recipe's own, on any machine."""
    recipes: list[Recipe] = []

    def run(key: object, make: Callable[[], Recipe], *_: torch.Tensor) -> None:
        recipes.append(make())

    monkeypatch.setattr(GRAPHS, "run", run)
    numbers = (("ntt graph", 1), ("ntt halves", halves))
    for key, value in numbers:
        monkeypatch.setitem(tuning.NUMBERS, (key, 8, 90), Number(((0, value),), "test"))
    xs = [torch.zeros(8, 1 << 12, dtype=torch.int32) for _ in range(n_inputs)]
    with rehearsing():
        getattr(triton_kernels, name)(*xs, Domain(12))
        (recipe,) = recipes
        rooms = recipe.rooms(xs[0])
        tensors = [torch.empty_like(xs[0]), *rooms, *apart(xs)]
        steps, constants = note_steps(recipe.write, tensors)
    parts = stretches(steps, range(1, 1 + len(rooms)))
    assert [step for part, _ in parts for step in part] == steps and constants
    assert [is_own for _, is_own in parts] == [False] + n_inputs * [True, False]
    assert [len(part) for part, is_own in parts if not is_own] == [1] * (n_inputs + 1)
    callers = [k for part, is_own in parts if not is_own for k in touched(part)]
    callers = [k for k in callers if k not in range(1, 1 + len(rooms))]
    assert sorted(callers) == [0, *range(1 + len(rooms), len(tensors))]
