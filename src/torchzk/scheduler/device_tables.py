"""Devices and locks of a run as tables of text, for terminals and for TensorBoard."""

from __future__ import annotations

from dataclasses import dataclass

from torchzk.scheduler.device_use import count, device_uses, retries
from torchzk.scheduler.lock_use import lock_uses
from torchzk.scheduler.stages import RunRecord


@dataclass(frozen=True)
class TextTable:
    """A table; all columns but the first are numbers."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def tables(record: RunRecord) -> list[TextTable]:
    """How busy devices were, and their locks, each in 80 columns of a terminal.

    None where no partition had kernels, nor for one worker of a CPU: it waits for nobody.
    """
    if not any(use.workers > 1 or use.device != "cpu" for use in device_uses(record)):
        return []
    found = [_busy(record), _profiled(record), _locks(record)]
    return [table for table in found if table.rows]


def counts(record: RunRecord, device: str) -> dict[str, int]:
    """What happened to a device's memory, by name.

    Keys of all devices are evicted by one hand, so evictions are those of the whole run.
    """
    return {
        "trims": count(record, "trim", device),
        "evictions": count(record, "evict"),
        "torch's own trims": retries(record, device),
    }


def _busy(record: RunRecord) -> TextTable:
    rows = []
    for use in device_uses(record):
        counted = [str(n) for n in counts(record, use.device).values()]
        head = (use.device, str(use.workers), f"{use.seconds:.2f}", f"{use.busy:.1%}")
        rows.append((*head, *counted))
    head = ("device", "workers", "window s", "busy, by stages")
    return TextTable((*head, "trims", "evictions", "trims by torch"), tuple(rows))


def _profiled(record: RunRecord) -> TextTable:
    """What CUPTI saw, where somebody asked."""
    rows = []
    for use in device_uses(record):
        if use.profiled is not None:
            start, end = use.profiled.window
            shares = (use.profiled_busy, use.busy_while_profiled, use.copies_alone)
            shown = [f"{share or 0.0:.1%}" for share in shares]
            looked = f"{(end - start) / 1e9:.2f}"
            rows.append((use.device, looked, str(use.profiled.n_kernels), *shown))
    head = ("profiled", "looked s", "kernels", "busy, by kernels", "by stages")
    return TextTable((*head, "copies alone"), tuple(rows))


def _locks(record: RunRecord) -> TextTable:
    rows = tuple(
        (
            lock.name,
            str(lock.holds),
            f"{lock.held_seconds:.2f}",
            f"{lock.waited_seconds:.2f}",
            f"{lock.longest_wait:.2f}",
        )
        for lock in lock_uses(record.spans)
    )
    return TextTable(("lock", "holds", "held s", "waited s, all", "longest wait s"), rows)
