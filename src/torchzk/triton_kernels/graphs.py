"""CUDA graphs: a sequence of launches that comes again with the same shapes, launched as one.

What is captured reads and writes memory at fixed addresses. So a replay copies its inputs to the
graph's own, and its output to a new tensor: callers see a function as before. Launches are
captured when their key comes the second time, after a first, plain run has compiled every kernel.
"""

from __future__ import annotations

import gc
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager

import torch

from torchzk.triton_kernels.launch import on_device

Launches = Callable[..., torch.Tensor]
"""Of tensors, to a new one. Launches kernels and allocates; what else it needs, it holds already:
it neither waits for the device nor copies from the host."""


class Graphs:
    """Graphs by key, the least recently used thrown out. Any thread may use it, on any stream.

    Each keeps its inputs, its output and the scratch between them on the device.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        # None where a key has come once
        self._graphs: OrderedDict[Hashable, _Graph | None] = OrderedDict()
        self._streams: dict[torch.device, torch.cuda.Stream] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        """Graphs that are kept."""
        return sum(graph is not None for graph in self._graphs.values())

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
            whole = (key, device, *(x.shape for x in inputs))
            # held while work is enqueued, not while it runs
            with self._lock:
                if whole in self._graphs:
                    graph = self._graphs[whole] or self._capture(make(), inputs)
                    self._keep(whole, graph)
                    return graph.replay(inputs)
                self._keep(whole, None)
            return make()(*inputs)

    def drop(self) -> None:
        """Forget every key and free the memory of the graphs, once they have run."""
        with self._lock:
            while self._graphs:
                self._throw_out()

    def _capture(self, launches: Launches, inputs: tuple[torch.Tensor, ...]) -> _Graph:
        device = inputs[0].device
        # one for good: nobody else enqueues on it while it captures
        stream = self._streams.setdefault(device, torch.cuda.Stream(device))
        return _Graph(launches, inputs, stream)

    def _keep(self, key: Hashable, graph: _Graph | None) -> None:
        self._graphs[key] = graph
        self._graphs.move_to_end(key)
        while len(self._graphs) > self._capacity:
            self._throw_out()

    def _throw_out(self) -> None:
        _, graph = self._graphs.popitem(last=False)
        if graph is not None:
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
        with torch.cuda.stream(stream), _no_collection():
            # other threads go on allocating meanwhile
            self._graph.capture_begin(capture_error_mode="thread_local")
            try:
                self._output = launches(*self._inputs)
            finally:
                self._graph.capture_end()
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


@contextmanager
def _no_collection() -> Iterator[None]:
    """No garbage is collected: what it frees on a device could spoil a capture."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


GRAPHS = Graphs(capacity=8)
"""The graphs of the kernels' own operations: of at most 2^20 elements, 0.25 GiB each at most."""
