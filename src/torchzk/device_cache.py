"""What functions keep on devices: so many results on each, however many devices there are."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from functools import lru_cache, update_wrapper
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar

if TYPE_CHECKING:
    import torch

P = ParamSpec("P")
Result = TypeVar("Result")


class _Holding(threading.local):
    results: dict[Hashable, Any] | None = None


_HOLDING = _Holding()


@contextmanager
def holding(results: dict[Hashable, Any]) -> Iterator[None]:
    """Whatever kept functions return to this thread is put in `results`, and taken from there.

    So what has been done once is done again with the same constants, whatever caches have
    forgotten; and they are there as long as `results`.
    """
    before, _HOLDING.results = _HOLDING.results, results
    try:
        yield
    finally:
        _HOLDING.results = before


class DeviceCache(Generic[P, Result]):
    """As `functools.lru_cache`, of a function whose last argument is a device. For any threads.

    With one cache for all, devices would throw out each other's results, and what one gives back
    would be missing on the others.
    """

    def __init__(self, make: Callable[P, Result], maxsize: int) -> None:
        """Args: maxsize: Results that are kept on a device."""
        update_wrapper(self, make)
        self._make, self._maxsize = make, maxsize
        self._by_device: dict[Any, Any] = {}

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Result:
        """What the function returns; kept results are by all of the arguments."""
        held = _HOLDING.results
        if held is None:
            return self._kept(*args, **kwargs)
        key = (self, args, tuple(kwargs.items()))
        if key not in held:
            held[key] = self._kept(*args, **kwargs)
        again: Result = held[key]
        return again

    def _kept(self, *args: P.args, **kwargs: P.kwargs) -> Result:
        device = args[-1]
        cached = self._by_device.get(device)
        if cached is None:
            # of two threads that are first both get the same one
            made = lru_cache(self._maxsize)(self._make)
            cached = self._by_device.setdefault(device, made)
        found: Result = cached(*args, **kwargs)
        return found

    def forget(self, device: torch.device) -> None:
        """Let go of a device's results. Who has one already keeps it for as long as it likes."""
        cached = self._by_device.get(device)
        if cached is not None:
            cached.cache_clear()

    def cache_clear(self) -> None:
        """Let go of the results of all devices."""
        for device in list(self._by_device):
            self.forget(device)

    def __len__(self) -> int:
        """How many results are kept."""
        return sum(cached.cache_info().currsize for cached in list(self._by_device.values()))


def kept_by_device(
    maxsize: int,
) -> Callable[[Callable[P, Result]], DeviceCache[P, Result]]:
    """Decorates a function whose last argument is a device; see `DeviceCache`."""

    def decorate(make: Callable[P, Result]) -> DeviceCache[P, Result]:
        return DeviceCache(make, maxsize)

    return decorate
