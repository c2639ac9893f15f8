"""Witnesses as CUDA graphs: a circuit's thousand short launches, started as one.

The witness of a circuit is the same sequence of launches for every partition, with other inputs.
It is computed plainly the first time, which compiles and loads every kernel, and captured the
second. What is captured reads and writes memory at fixed addresses: inputs are copied to the
graph's own, and all partitions have their values in one place, one after the other. The next
replay comes after what was launched for the last partition, on the same stream.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import fields, is_dataclass, replace
from functools import cache, partial
from typing import Any

import torch

from torchzk import captures
from torchzk.captures import captured
from torchzk.device_cache import holding
from torchzk.errors import LayoutError, ResourceError, TorchzkError
from torchzk.groth16.r1cs import Assignment
from torchzk.groth16.streams import used_here
from torchzk.memory_faults import forget_frames, memory_reason, ran_out_of_memory
from torchzk.scheduler.device_budget import driver_memory

Program = Callable[[Any], Assignment]
"""What computes an assignment from tensors: it launches kernels and allocates, neither waits for
the device nor copies from the host, and gets its constants from functions `kept_by_device`."""


class WitnessGraphs:
    """Graphs by device and circuit. For any threads."""

    def __init__(self) -> None:
        self._graphs: dict[tuple[torch.device, str], _WitnessGraph] = {}
        self._guard = threading.Lock()

    def __len__(self) -> int:
        """How many circuits have one, or are about to."""
        return len(self._graphs)

    @contextmanager
    def lent(
        self,
        device: torch.device,
        circuit: str,
        program: Program,
        n_bytes: int,
        warn: Callable[[str], None],
    ) -> Iterator[Program]:
        """The program, by a graph from its second run on; nobody else has it meanwhile.

        What it returns is good for what is launched on the current stream until the context ends.

        Args:
            device: Where it runs; its current stream is the same each time.
            circuit: What tells programs of a device apart.
            program: Of the circuit, whoever asks.
            n_bytes: What it takes, result and inputs included. They stay until `drop`.
            warn: Told where there is not so much memory; the witness is computed plainly then.

        Raises:
            ResourceError: When run: it cannot be captured.
        """
        key = (device, circuit)
        with self._guard:
            graph = self._graphs.setdefault(key, _WitnessGraph())
        with graph.lock:
            # an error that is kept keeps frames, and they must not keep the graph
            there = [graph]

            def assign(given: Any) -> Assignment:
                return there[0].run(program, n_bytes, lambda why: warn(f"{circuit}: {why}"), given)

            try:
                yield assign
            finally:
                there.clear()
                if self._graphs.get(key) is not graph:
                    # dropped meanwhile, and gone when this one lets go of it
                    graph.wait()

    def drop(self, device: torch.device, circuit: str | None = None) -> None:
        """Give back a circuit's memory, or that of all on a device, once nobody works on it."""
        with self._guard:
            gone = [key for key in self._graphs if key[0] == device and circuit in (None, key[1])]
            graphs = [self._graphs.pop(key) for key in gone]
        for graph in graphs:
            graph.wait()


class _WitnessGraph:
    """One circuit's on one device."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        # their addresses are in the graph
        self._constants: dict[Hashable, Any] = {}
        self._own: Any = None
        self._captured: Captured | None = None
        self._was_run = self._refused = False

    def run(
        self, program: Program, n_bytes: int, warn: Callable[[str], None], given: Any
    ) -> Assignment:
        """The values for `given`: plainly, or where they always are."""
        tensors = tensors_of(given)
        if self._own is None:
            # as laid out here in each run, lest kernels differ by where their inputs begin
            self._own = changed(
                given, lambda x: torch.empty(x.shape, dtype=x.dtype, device=x.device)
            )
        own = tensors_of(self._own)
        if [(x.shape, x.dtype) for x in own] != [(x.shape, x.dtype) for x in tensors]:
            # the program says what is wrong with it
            return program(given)
        for mine, x in zip(own, tensors, strict=True):
            mine.copy_(x)
        with holding(self._constants):
            if self._was_run and self._captured is None and not self._refused:
                self._capture(partial(program, self._own), n_bytes, warn)
            if self._captured is None:
                values = program(self._own)
                self._was_run = True
                return values
            self._captured.replay()
        return self._captured.values

    def wait(self) -> None:
        """Until the last replay is over: its memory is others' as soon as nobody has it."""
        if self._captured is not None:
            # a device that fails cannot say when
            with suppress(RuntimeError):
                self._captured.wait()

    def _capture(
        self, launch: Callable[[], Assignment], n_bytes: int, warn: Callable[[str], None]
    ) -> None:
        try:
            self._captured = Captured(launch, tensors_of(self._own)[0].device, n_bytes)
            return
        except Exception as e:
            if isinstance(e, TorchzkError):
                raise
            if not ran_out_of_memory(e):
                raise ResourceError(
                    f"a witness cannot be captured as a graph ({e}); start anew without "
                    "witness_graph"
                ) from e
            forget_frames(e)
            reason = memory_reason(e)
        self._refused = True
        warn(f"the witness is no graph, for lack of memory ({reason}), and computed plainly")


class Captured:
    """What was launched on a CUDA device, to be launched again; its values are in one place."""

    def __init__(
        self, launch: Callable[[], Assignment], device: torch.device, n_bytes: int
    ) -> None:
        _make_room(device, n_bytes)
        current, stream = torch.cuda.current_stream(device), _stream(device)
        self._graph = torch.cuda.CUDAGraph()
        stream.wait_stream(current)
        with torch.cuda.stream(stream), captured(self._graph):
            self.values = launch()
        # whoever has them last: their memory is that of the stream it was captured on
        used_here(self.values.inputs, self.values.aux)
        self._done = torch.cuda.Event()  # type: ignore[no-untyped-call]

    def replay(self) -> None:
        """Compute the values anew, in order on the current stream."""
        self._graph.replay()
        self._done.record()

    def wait(self) -> None:
        """Until the last replay is over."""
        self._done.synchronize()


@cache
def _stream(device: torch.device) -> torch.cuda.Stream:
    """What nobody else enqueues on while it is captured; kernels have its priority when replayed,
    that of `compute_stream`."""
    return torch.cuda.Stream(device, priority=-1)  # type: ignore[no-untyped-call]


def _make_room(device: torch.device, n_bytes: int) -> None:
    """Have the driver give so much: what torch keeps is for other tensors than a graph's, and
    while one is captured it is not given back."""
    if driver_memory(device) < n_bytes:
        captures.empty_cache()


def tensors_of(given: Any) -> list[torch.Tensor]:
    """The tensors that something is made of, in order; raises as `changed`."""
    found: list[torch.Tensor] = []

    def note(x: torch.Tensor) -> torch.Tensor:
        found.append(x)
        return x

    changed(given, note)
    return found


def changed(given: Any, change: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """A tensor, or tuples and dataclasses of them, with every tensor changed.

    Raises:
        LayoutError: There is something else in it, whose value a graph would not know of.
    """
    if isinstance(given, torch.Tensor):
        return change(given)
    if isinstance(given, tuple | list):
        return tuple(changed(x, change) for x in given)
    if is_dataclass(given) and not isinstance(given, type):
        own = {field.name: changed(getattr(given, field.name), change) for field in fields(given)}
        return replace(given, **own)
    raise LayoutError(
        f"what a graph computes is made from tensors alone, got {type(given).__name__}"
    )
