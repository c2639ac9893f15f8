"""The bytes of tensors that are alive, and the most there were: a device's allocator on a CPU."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


@dataclass
class Watched:
    """Bytes of the tensors made since the watch began."""

    peak: int = 0
    _storages: dict[int, weakref.ref[torch.UntypedStorage]] = field(default_factory=dict)

    @property
    def alive(self) -> int:
        """Bytes there are now; a storage may have been made smaller since."""
        there = [(key, reference()) for key, reference in self._storages.items()]
        self._storages = {key: self._storages[key] for key, storage in there if storage is not None}
        return sum(storage.nbytes() for _, storage in there if storage is not None)

    def see(self, tensor: torch.Tensor) -> None:
        """Count a tensor's storage until it is gone."""
        storage = tensor.untyped_storage()
        known = self._storages.get(storage._cdata)
        if known is None or known() is None:
            self._storages[storage._cdata] = weakref.ref(storage)
            self.peak = max(self.peak, self.alive)


class _Mode(TorchDispatchMode):  # type: ignore[no-untyped-call]
    def __init__(self, watched: Watched) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._watched = watched

    def __torch_dispatch__(
        self,
        func: Callable[..., Any],
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        inputs = {
            x.untyped_storage()._cdata
            for x in tree_leaves((args, kwargs))
            if isinstance(x, torch.Tensor)
        }
        out = func(*args, **(kwargs or {}))
        for x in tree_leaves(out):
            # a view of what was there before is nothing new
            if isinstance(x, torch.Tensor) and x.untyped_storage()._cdata not in inputs:
                self._watched.see(x)
        return out


@contextmanager
def watch_memory() -> Iterator[Watched]:
    """Counts what is allocated inside; what was there before is not counted."""
    watched = Watched()
    with _Mode(watched):
        yield watched


def peak_bytes(call: Callable[[], object], device: torch.device) -> int:
    """What `call()` takes of a device at its peak, its result included.

    On CUDA that is what the allocator gave, the ends of its blocks included.
    """
    if device.type != "cuda":
        with watch_memory() as watched:
            call()
        return watched.peak
    # what others still free would count as the call's
    torch.cuda.synchronize(device)
    torch.cuda.reset_peak_memory_stats(device)
    before = torch.cuda.memory_allocated(device)
    call()
    # and what the call still frees would be missing
    torch.cuda.synchronize(device)
    return torch.cuda.max_memory_allocated(device) - before
