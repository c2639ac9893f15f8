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
    """How busy devices were, and their locks; none where no partition had kernels."""
    found = [_busy(record), _locks(record)]
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
        kernels, beside = use.profiled_busy, use.busy_while_profiled
        counted = counts(record, use.device)
        rows.append(
            (
                use.device,
                str(use.workers),
                f"{use.seconds:.2f}",
                f"{use.busy:.1%}",
                "not asked" if kernels is None else f"{kernels:.1%}",
                "" if beside is None else f"{beside:.1%}",
                "" if use.copies_alone is None else f"{use.copies_alone:.1%}",
                str(counted["trims"]),
                str(counted["evictions"]),
                str(counted["torch's own trims"]),
            )
        )
    head = ("device", "workers", "first to last s", "busy, by stages", "busy, by kernels")
    more = ("stages meanwhile", "copies alone", "trims", "evictions", "torch's own trims")
    return TextTable(head + more, tuple(rows))


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
