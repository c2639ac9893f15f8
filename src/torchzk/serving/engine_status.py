"""Who works on what, from the jobs that have not ended."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from torchzk.serving.engine import DeviceReport, ProofKind
from torchzk.serving.live_job import LiveJob


def jobs_by_kind(live: Iterable[LiveJob], *, running: bool) -> Mapping[ProofKind, int]:
    """How many jobs run, or wait for a device, whatever queue they are in; 0 for each kind too."""
    counts = Counter(dict.fromkeys(ProofKind, 0))
    counts.update(job.row.kind for job in live if job.running is running)
    return counts


def device_reports(
    workers: Sequence[DeviceReport], up: Collection[str], live: Sequence[LiveJob]
) -> tuple[DeviceReport, ...]:
    """Workers with what they work on: a partition each, as far as a device has any."""
    at_work: dict[str, list[LiveJob]] = {}
    for job in live:
        for device in () if job.work is None else job.work.at_work:
            at_work.setdefault(device, []).append(job)
    reports = []
    for worker in workers:
        jobs = at_work.get(worker.name, [])
        report = replace(worker, set_aside=worker.name not in up)
        if jobs:
            job = jobs.pop(0)
            report = replace(report, job_id=job.row.job_id, kind=job.row.kind)
        reports.append(report)
    return tuple(reports)
