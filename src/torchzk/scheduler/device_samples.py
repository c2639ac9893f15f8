"""What is known of a device's memory and kernels besides the spans of stages. Data alone."""

from __future__ import annotations

from dataclasses import dataclass

Interval = tuple[int, int]
"""Start and end, in nanoseconds of the host's monotonic clock."""


@dataclass(frozen=True)
class DeviceMemory:
    """Memory of a device, in bytes."""

    allocated: int
    """In tensors."""
    reserved: int
    """Held by torch's allocator: tensors, what it keeps for the next ones, and what is between."""
    retries: int = 0
    """How often torch has emptied its cache since the process began, for want of room."""

    def at_least(self, other: DeviceMemory) -> DeviceMemory:
        """The larger of each."""
        return DeviceMemory(
            max(self.allocated, other.allocated),
            max(self.reserved, other.reserved),
            max(self.retries, other.retries),
        )


@dataclass(frozen=True)
class VramSample:
    """The most memory of a device that was in use since the sample before."""

    time_ns: int
    device: str
    most: DeviceMemory


@dataclass(frozen=True)
class LevelSample:
    """A level that somebody reported, such as the bytes promised of a device; until the next."""

    time_ns: int
    name: str
    value: int


@dataclass(frozen=True)
class ProfiledWindow:
    """What CUPTI saw of a device in a short time: every kernel, not the stages around them."""

    device: str
    window: Interval
    kernels: tuple[Interval, ...]
    """Merged, in order of time."""
    copies: tuple[Interval, ...]
    """Copies and fills of memory, merged; they are no kernels."""
    n_kernels: int
