"""CUDA graphs: a sequence of launches that comes again with the same shapes, launched as one.

What is captured reads and writes memory at fixed addresses. So a replay copies its inputs to the
graph's own, and its output to a new tensor: callers see a function as before. Launches are
captured when their key comes the second time, after a first, plain run has compiled every kernel.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable

import torch

from torchzk.captures import captured
from torchzk.triton_kernels.launch import on_device

Launches = Callable[..., torch.Tensor]
"""Of tensors, to a new one. Launches kernels and allocates; what else it needs, it holds already:
it neither waits for the device nor copies from the host."""


_Whole = tuple[Hashable, torch.device, *tuple[torch.Size, ...]]
"""A key, the device, and the shapes of all inputs."""

_MOST_SEEN = 64


class Graphs:
    """Graphs by key, of each device the least recently used thrown out. Any thread may use it, on
    any stream.

    Each keeps its inputs, its output and the scratch between them on the device.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._graphs: OrderedDict[_Whole, _Graph] = OrderedDict()
        # keys that came once
        self._seen: OrderedDict[_Whole, None] = OrderedDict()
        self._streams: dict[torch.device, torch.cuda.Stream] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        """How many graphs are kept."""
        return len(self._graphs)

    def run(
        self, key: Hashable, make: Callable[[], Launches], *inputs: torch.Tensor
    ) -> torch.Tensor:
        """What `make()(*inputs)` returns, by one launch if it came before.

        Args:
            key: What tells launches apart, but for the shapes and the device of their inputs.
            make: Gathers constants and returns the launches; they are kept as long as the graph,
                and with them the tensors whose addresses the graph reads.
            inputs: Tensors of one device; not modified.

        Off CUDA nothing is captured. While the current stream is being captured by somebody else,
        the launches become part of that graph.
        """
        device = inputs[0].device
        if device.type != "cuda":
            return make()(*inputs)
        with on_device(device):
            if torch.cuda.is_current_stream_capturing():
                return make()(*inputs)
            whole: _Whole = (key, device, *(x.shape for x in inputs))
            # held while work is enqueued, not while it runs
            with self._lock:
                graph = self._graphs.get(whole)
                if graph is None and whole in self._seen:
                    graph = self._graphs[whole] = self._capture(make(), inputs)
                    del self._seen[whole]
                if graph is not None:
                    self._graphs.move_to_end(whole)
                    mine = [kept for kept in self._graphs if kept[1] == device]
                    for oldest in mine[: max(len(mine) - self._capacity, 0)]:
                        self._throw_out(oldest)
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

    def _capture(self, launches: Launches, inputs: tuple[torch.Tensor, ...]) -> _Graph:
        device = inputs[0].device
        if device not in self._streams:
            # one for good: nobody else enqueues on it while it captures
            self._streams[device] = torch.cuda.Stream(device)
        return _Graph(launches, inputs, self._streams[device])

    def _throw_out(self, whole: _Whole) -> None:
        graph = self._graphs.pop(whole)
        # its memory may be given away as soon as it is gone
        graph.done.synchronize()


class _Graph:
    """One captured sequence with the memory it works on."""

    def __init__(
        self, launches: Launches, inputs: tuple[torch.Tensor, ...], stream: torch.cuda.Stream
    ) -> None:
        # holds the tables that the launches read
        self._launches = launches
        self._inputs = [torch.empty(x.shape, dtype=x.dtype, device=x.device) for x in inputs]
        self._graph = torch.cuda.CUDAGraph()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream), captured(self._graph):
            self._output = launches(*self._inputs)
        torch.cuda.current_stream().wait_stream(stream)
        self.done = torch.cuda.Event()
        """When the last replay is over."""

    def replay(self, inputs: tuple[torch.Tensor, ...]) -> torch.Tensor:
        """The output for `inputs`, in order on the current stream."""
        # the last one may have been on another stream
        self.done.wait()
        for own, x in zip(self._inputs, inputs, strict=True):
            own.copy_(x)
        self._graph.replay()
        out = self._output.clone()
        self.done.record()
        return out


GRAPHS = Graphs(capacity=8)
"""The graphs of the kernels' own operations: of at most 2^18 elements, 64 MiB each at most."""
