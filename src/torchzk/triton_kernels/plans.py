"""Plans: the launches of an operation, noted once and started again on other tensors.

To find a compiled kernel by its arguments takes the host about as long as a short kernel runs. In
a plan all are found, and their arguments in place but for the addresses of tensors that come and
go. It keeps no memory of the device: once a constant is gone, such as roots of unity that a cache
has forgotten, the plan is made anew.
"""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch

from torchzk.triton_kernels import beside, launch


@dataclass(frozen=True)
class Recipe:
    """What an operation does, once its constants are there."""

    n_rooms: int
    """Vectors that it works in, as long as its first input."""
    write: Callable[..., None]
    """Of the result, the rooms and the inputs. It launches kernels, and does nothing else to
    tensors. The result is written once the first room is not wanted any more: it may be that."""

    def __call__(self, *inputs: torch.Tensor) -> torch.Tensor:
        """The result, in a new tensor."""
        rooms = self.rooms(inputs[0])
        self.write(rooms[0], *rooms, *inputs)
        return rooms[0]

    def rooms(self, x: torch.Tensor) -> list[torch.Tensor]:
        """New ones, as long as `x`."""
        return [torch.empty_like(x) for _ in range(self.n_rooms)]


class Plans:
    """Plans by key, the oldest thrown out. Any thread may use it, on any stream."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._plans: OrderedDict[Hashable, _Plan] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        """How many plans are kept."""
        return len(self._plans)

    def run(self, key: Hashable, make: Callable[[], Recipe], *inputs: torch.Tensor) -> torch.Tensor:
        """What `make()(*inputs)` returns.

        Args:
            key: What tells operations apart, but for the shapes and the device of their inputs.
            make: Gathers constants; a plan holds as long as somebody else keeps them.
            inputs: Contiguous tensors of one device, at addresses that are multiples of 16.
        """
        device = inputs[0].device
        if not launch.can_be_noted(device):
            return make()(*inputs)
        whole = (key, device, *(x.shape for x in inputs))
        with launch.on_device(device):
            plan = self._plans.get(whole)
            out = None if plan is None else plan.start(inputs)
            if out is None:
                plan, out = _noted(make(), inputs)
                with self._lock:
                    self._plans[whole] = plan
                    if len(self._plans) > self._capacity:
                        self._plans.popitem(last=False)
            return out

    def drop(self) -> None:
        """Forget every plan."""
        with self._lock:
            self._plans.clear()


class Step(NamedTuple):
    """A launch whose arguments are in place, but for addresses of some tensors."""

    start: Callable[..., None]
    """Launches the kernel over its grid."""
    args: list[Any]
    places: list[tuple[int, int]]
    """Which arguments are addresses of which tensors, by their number."""
    is_beside: bool
    """Whether it goes to the stream of `beside.fork`."""


Steps = Sequence[Step | launch.Mark]


def start_steps(steps: Steps, at: Sequence[int], device: torch.device) -> None:
    """Launch all of them on the current stream, and on the one beside it between fork and join.

    Args: at: The addresses of the tensors that `note_steps` was given, or of others like them.
    """
    stream, side = launch.stream_on(device), None
    try:
        for step in steps:
            if step == "fork":
                side = beside.fork(device)
            elif step == "join":
                beside.join(device)
                side = None
            else:
                start, args, places, is_beside = step
                filled = args.copy()
                for i, k in places:
                    filled[i] = at[k]
                start(*filled, stream=side if is_beside else stream)
    finally:
        # a launch failed, or somebody interrupted: tensors are let go of
        if side is not None:
            beside.join(device)


def note_steps(
    write: Callable[..., None], tensors: Sequence[torch.Tensor]
) -> tuple[list[Step | launch.Mark], list[torch.Tensor]]:
    """Call `write` of the tensors: what it launches, and the constants that those kernels read.

    Args: tensors: Each an object of its own, unless it is to be the same in all calls.
    """
    with launch.noting() as log:
        write(*tensors)
    place = {id(tensor): k for k, tensor in enumerate(tensors)}
    storages = {tensor.untyped_storage().data_ptr() for tensor in tensors}
    steps, constants = list[Step | launch.Mark](), dict[int, torch.Tensor]()
    for noted in log:
        if isinstance(noted, str):
            steps.append(noted)
            continue
        start, given, is_beside = noted
        args, places = list(given), list[tuple[int, int]]()
        for i, x in enumerate(given):
            if id(x) in place:
                places.append((i, place[id(x)]))
            elif isinstance(x, torch.Tensor):
                if x.untyped_storage().data_ptr() in storages:
                    raise ValueError("a recipe launches kernels on its tensors as they are")
                constants[id(x)] = x
                args[i] = x.data_ptr()
        # so that nobody keeps them with the steps
        for i, _ in places:
            args[i] = 0
        steps.append(Step(start, args, places, is_beside))
    return steps, list(constants.values())


def apart(inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """The same tensors as objects of their own: one may be several inputs."""
    return [x.view(x.shape) for x in inputs]


class _Plan(NamedTuple):
    n_rooms: int
    steps: Steps
    constants: list[weakref.ref[torch.Tensor]]

    def start(self, inputs: tuple[torch.Tensor, ...]) -> torch.Tensor | None:
        """The result for `inputs`, on the current stream; None if a constant is gone."""
        # until all is enqueued
        constants = [constant() for constant in self.constants]
        if any(constant is None for constant in constants):
            return None
        x = inputs[0]
        rooms = [torch.empty_like(x) for _ in range(self.n_rooms)]
        at = [tensor.data_ptr() for tensor in (rooms[0], *rooms, *inputs)]
        start_steps(self.steps, at, x.device)
        return rooms[0]


def _noted(recipe: Recipe, inputs: tuple[torch.Tensor, ...]) -> tuple[_Plan, torch.Tensor]:
    """The plan of what the recipe launches, and the result."""
    rooms = recipe.rooms(inputs[0])
    steps, constants = note_steps(recipe.write, [rooms[0], *rooms, *apart(inputs)])
    return _Plan(recipe.n_rooms, steps, [weakref.ref(x) for x in constants]), rooms[0]


PLANS = Plans(capacity=64)
"""The plans of the kernels' own operations."""
