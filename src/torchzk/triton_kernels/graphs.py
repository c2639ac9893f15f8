"""CUDA graphs: a sequence of launches that comes again with the same shapes, launched as few.

What is captured reads and writes memory at fixed addresses. So a graph works in rooms of its own,
and what touches inputs or the output is launched by itself, as a plan does: often the first and the
last. A recipe is captured when its key comes the second time, after a first, plain run has compiled
every kernel.
"""

from __future__ import annotations

import itertools
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Sequence

import torch

from torchzk.captures import captured
from torchzk.triton_kernels.launch import Mark, can_be_noted, on_device, stream_on
from torchzk.triton_kernels.plans import Recipe, Step, Steps, apart, note_steps, start_steps

_Whole = tuple[Hashable, torch.device, *tuple[torch.Size, ...]]
"""A key, the device, and the shapes of all inputs."""

_MOST_SEEN = 64


class Graphs:
    """Graphs by key, of each device the least recently used thrown out. Any thread may use it, on
    any stream.

    Each keeps the rooms of its recipe on the device, and its constants.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._graphs: dict[_Whole, _Graph] = {}
        # keys that came once
        self._seen: OrderedDict[_Whole, None] = OrderedDict()
        self._streams: dict[torch.device, torch.cuda.Stream] = {}
        self._uses = itertools.count()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        """How many graphs are kept."""
        return len(self._graphs)

    def run(self, key: Hashable, make: Callable[[], Recipe], *inputs: torch.Tensor) -> torch.Tensor:
        """What `make()(*inputs)` returns, by few launches if it came before.

        Args:
            key: What tells recipes apart, but for the shapes and the device of their inputs.
            make: Gathers constants; they are kept as long as the graph.
            inputs: Contiguous tensors of one device, at addresses that are multiples of 16.

        Where launches cannot be noted nothing is captured. While the current stream is being
        captured by somebody else, the launches become part of that graph.
        """
        device = inputs[0].device
        if not can_be_noted(device):
            return make()(*inputs)
        with on_device(device):
            if torch.cuda.is_current_stream_capturing():
                return make()(*inputs)
            whole: _Whole = (key, device, *(x.shape for x in inputs))
            # held while work is enqueued, not while it runs; short on purpose, as short transforms
            # notice what their host does
            with self._lock:
                graph = self._graphs.get(whole)
                if graph is None and whole in self._seen:
                    graph = self._capture(make(), inputs)
                    self._keep(whole, graph)
                if graph is not None:
                    graph.used = next(self._uses)
                    return graph.replay(inputs)
            out = make()(*inputs)
            # not before: by now every kernel is compiled and loaded, which no capture could do
            with self._lock:
                self._seen[whole] = None
                if len(self._seen) > _MOST_SEEN:
                    self._seen.popitem(last=False)
            return out

    def drop(self, device: torch.device | None = None) -> None:
        """Forget a device's keys and free the memory of its graphs, once they have run; or all."""
        with self._lock:
            for whole in [seen for seen in self._seen if device in (None, seen[1])]:
                del self._seen[whole]
            for whole in [kept for kept in self._graphs if device in (None, kept[1])]:
                self._throw_out(whole)

    def _keep(self, whole: _Whole, graph: _Graph) -> None:
        mine = [kept for kept in self._graphs if kept[1] == whole[1]]
        mine.sort(key=lambda kept: self._graphs[kept].used)
        for oldest in mine[: max(len(mine) + 1 - self._capacity, 0)]:
            self._throw_out(oldest)
        self._graphs[whole] = graph
        del self._seen[whole]

    def _capture(self, recipe: Recipe, inputs: tuple[torch.Tensor, ...]) -> _Graph:
        device = inputs[0].device
        if device not in self._streams:
            # one for good: nobody else enqueues on it while it captures
            self._streams[device] = torch.cuda.Stream(device)
        return _Graph(recipe, inputs, self._streams[device])

    def _throw_out(self, whole: _Whole) -> None:
        graph = self._graphs.pop(whole)
        # its memory may be given away as soon as it is gone
        graph.done.synchronize()


class _Graph:
    """The launches of one recipe, and the rooms that they work in."""

    def __init__(
        self, recipe: Recipe, inputs: tuple[torch.Tensor, ...], stream: torch.cuda.Stream
    ) -> None:
        self._device = inputs[0].device
        self._rooms = recipe.rooms(inputs[0])
        tensors = [torch.empty_like(inputs[0]), *self._rooms, *apart(inputs)]
        steps, self._constants = note_steps(recipe.write, tensors)
        own = range(1, 1 + len(self._rooms))
        self._own = [room.data_ptr() for room in self._rooms]
        self._parts: list[tuple[Steps | torch.cuda.CUDAGraph, bool]] = []
        stream.wait_stream(torch.cuda.current_stream())
        for part, is_own in stretches(steps, own):
            if not is_own or len(part) == 1:
                self._parts.append((part, 0 in touched(part)))
                continue
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.stream(stream), captured(graph):
                # nobody else's address is wanted
                start_steps(part, [0, *self._own], self._device)
            self._parts.append((graph, False))
        torch.cuda.current_stream().wait_stream(stream)
        self.used = 0
        """When, among all uses of graphs."""
        self.done = torch.cuda.Event()
        """When the last replay is over."""
        self._last_stream: int | None = None

    def replay(self, inputs: tuple[torch.Tensor, ...]) -> torch.Tensor:
        """The output for `inputs`, in order on the current stream."""
        stream = stream_on(self._device)
        if stream != self._last_stream:
            # the last one was in the same rooms
            self.done.wait()
            self._last_stream = stream
        out: torch.Tensor | None = None
        at = [0, *self._own, *(x.data_ptr() for x in inputs)]
        try:
            for part, writes in self._parts:
                if isinstance(part, torch.cuda.CUDAGraph):
                    part.replay()
                    continue
                if writes and out is None:
                    # not before, lest the first launch waits for it
                    out = torch.empty_like(inputs[0])
                    at[0] = out.data_ptr()
                start_steps(part, at, self._device)
        finally:
            self.done.record()
        if out is None:
            raise ValueError("a recipe writes its result")
        return out


def stretches(
    steps: Iterable[Step | Mark], own: Sequence[int]
) -> list[tuple[list[Step | Mark], bool]]:
    """The steps, cut where those that touch tensors `own` alone begin or end; and whether they do.

    From a fork to its join nothing is cut.
    """
    found: list[tuple[list[Step | Mark], bool]] = []
    stretch: list[Step | Mark] = []
    is_forked = False
    for step in steps:
        stretch.append(step)
        if isinstance(step, str):
            is_forked = step == "fork"
        if is_forked:
            continue
        is_own = touched(stretch) <= set(own)
        if found and found[-1][1] == is_own:
            found[-1][0].extend(stretch)
        else:
            found.append((stretch, is_own))
        stretch = []
    return found


def touched(steps: Steps) -> set[int]:
    """The tensors whose addresses they are given."""
    return {k for step in steps if isinstance(step, Step) for _, k in step.places}


GRAPHS = Graphs(capacity=8)
"""The graphs of the kernels' own operations: of at most 2^20 elements, 64 MiB each for a transform
and 96 for a quotient."""
