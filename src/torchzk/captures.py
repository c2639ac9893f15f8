"""Captures of CUDA graphs, one at a time, and when there is none.

While a stream is captured nobody may wait for its whole device, nor may torch's allocator give
memory back to the driver: it takes that for a fault of the program.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import torch

_LOCK = threading.RLock()


@contextmanager
def at_rest() -> Iterator[None]:
    """Nothing is captured meanwhile, by any thread."""
    with _LOCK:
        yield


def empty_cache() -> None:
    """Give the memory that torch's allocator keeps for no tensor back to the driver, at rest."""
    with _LOCK:
        torch.cuda.empty_cache()


@contextmanager
def captured(graph: torch.cuda.CUDAGraph) -> Iterator[None]:
    """What this thread launches on its current stream meanwhile becomes the graph, and is not done.

    Other threads may go on launching and allocating.
    """
    with _LOCK, _no_collection():
        graph.capture_begin(capture_error_mode="thread_local")
        try:
            yield
        except BaseException:
            # a capture that was broken fails to end as well, with less to say about it
            with suppress(RuntimeError):
                graph.capture_end()
            raise
        graph.capture_end()


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
