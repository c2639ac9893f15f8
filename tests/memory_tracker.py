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

    alive: int = 0
    peak: int = 0
    _known: set[int] = field(default_factory=set)

    def see(self, tensor: torch.Tensor) -> None:
        """Count a tensor's storage, once, until it is gone."""
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key in self._known:
            return
        self._known.add(key)
        size = storage.nbytes()
        self.alive += size
        self.peak = max(self.peak, self.alive)
        weakref.finalize(storage, self._gone, key, size)

    def _gone(self, key: int, size: int) -> None:
        self._known.discard(key)
        self.alive -= size


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
