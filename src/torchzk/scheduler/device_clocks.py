"""The clocks of several devices as one: a span is of the device that its thread works on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import torch

from torchzk.scheduler.device_clock import CudaGauge, DeviceClock
from torchzk.scheduler.device_samples import VramSample
from torchzk.scheduler.stages import DeviceSpan
from torchzk.timeline import Span


class DeviceClocks:
    """Listens as a `DeviceClock` does, and hands every edge to the clock of the thread's device."""

    def __init__(self, clocks: Mapping[str, DeviceClock], current: Callable[[], str]) -> None:
        """Args:
        clocks: By the device's name.
        current: The name of the device that the calling thread works on.
        """
        self._clocks, self._current = clocks, current

    @property
    def fault(self) -> str | None:
        """Why a clock stopped, if a device no longer answers."""
        faults = (f"{name}: {clock.fault}" for name, clock in self._clocks.items() if clock.fault)
        return "; ".join(faults) or None

    def opened(self, name: str) -> None:
        """A span opens on the calling thread."""
        clock = self._clocks.get(self._current())
        if clock is not None:
            clock.opened(name)

    def closed(self, span: Span) -> None:
        """A span closes on the thread that opened it."""
        clock = self._clocks.get(self._current())
        if clock is not None:
            clock.closed(span)

    def take(self) -> tuple[DeviceSpan, ...]:
        """As `DeviceClock.take`, of all devices."""
        return tuple(span for clock in self._clocks.values() for span in clock.take())

    def take_samples(self) -> tuple[VramSample, ...]:
        """As `DeviceClock.take_samples`, of all devices."""
        found = [s for clock in self._clocks.values() for s in clock.take_samples()]
        return tuple(sorted(found, key=lambda s: s.time_ns))


def clocks_of(devices: Iterable[torch.device]) -> DeviceClocks | None:
    """Clocks for the CUDA devices among these; None if there are none."""
    clocks = {str(d): DeviceClock(CudaGauge(d)) for d in devices if d.type == "cuda"}
    if not clocks:
        return None
    return DeviceClocks(clocks, lambda: f"cuda:{torch.cuda.current_device()}")
