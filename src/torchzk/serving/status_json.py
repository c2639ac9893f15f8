"""`/status`: the fields that cuzk's has, by its names, and ours below `torchzk`."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

import torchzk
from torchzk.scheduler import machine
from torchzk.serving.engine import (
    DeviceReport,
    Engine,
    EngineStatus,
    JobReport,
    JobState,
    PartitionReport,
)

_MOST_RECENT = 50
_MOST_QUEUED = 200
_HOST, _DEVICE = ("synthesizing", "synth_done"), ("gpu",)


def status_json(engine: Engine, *, now: float | None = None) -> dict[str, Any]:
    """What an engine does now, as JSON has it. Proofs and payloads are not in there.

    Args:
        engine: Whose.
        now: Unix time.
    """
    now = time.time() if now is None else now
    status, jobs = engine.status(), engine.jobs()
    running = [job for job in jobs if job.state is JobState.RUNNING]
    waiting = [job for job in jobs if job.state is JobState.QUEUED]
    ended = [job for job in jobs if job.state.ended]
    memory = machine.memory()
    parts = [part for job in running for part in job.partitions]
    return {
        "uptime_secs": status.uptime_seconds,
        "memory": {
            "total_bytes": memory.total,
            "used_bytes": memory.total - memory.usable,
            "available_bytes": memory.usable,
        },
        "synthesis": {
            "max_concurrent": len(status.devices),
            "active": _count(parts, ("synthesizing",)),
        },
        "pipelines": [_pipeline(job) for job in running],
        "gpu_workers": _workers(status.devices, running),
        "allocations": {"srs": [_key(key) for key in status.keys], "pce": []},
        "counters": _counters(status, jobs),
        "buffers": {
            "synth_in_flight": _count(parts, _HOST),
            "provers_in_flight": _count(parts, _DEVICE),
            # what cuzk counts here, torchzk does not have
            "aux_in_flight": 0,
            "shells_in_flight": 0,
            "pending_handles": 0,
        },
        "torchzk": {
            "version": torchzk.__version__,
            "ready": status.ready,
            "time": now,
            "pinned_bytes": status.pinned_bytes,
            "pinned_limit_bytes": status.pinned_limit_bytes,
            "devices": [
                {
                    "name": device.name,
                    "set_aside": device.set_aside,
                    "vram_total_bytes": device.vram_total_bytes,
                    "vram_free_bytes": device.vram_free_bytes,
                }
                for device in {d.name: d for d in status.devices}.values()
            ],
            "keys": [
                {
                    "circuit_id": key.circuit_id,
                    "place": key.place,
                    "bytes": key.size_bytes,
                    "users": key.users,
                }
                for key in status.keys
            ],
            "pending": {kind.value: n for kind, n in status.pending.items()},
            "running": {kind.value: n for kind, n in status.running.items()},
            "queue": [_job(job, now) for job in waiting[:_MOST_QUEUED]],
            "recent": [_job(job, now) for job in reversed(ended[-_MOST_RECENT:])],
        },
    }


def _count(parts: Sequence[PartitionReport], states: tuple[str, ...]) -> int:
    return sum(part.state in states for part in parts)


def _pipeline(job: JobReport) -> dict[str, Any]:
    return {
        "job_id": job.job_id,
        "proof_kind": job.kind.value,
        "started_secs_ago": max(job.seconds.total - job.seconds.queue_wait, 0.0),
        "total_partitions": len(job.partitions),
        "partitions_done": _count(job.partitions, ("done",)),
        "partitions": [
            {
                "index": part.index,
                "state": part.state,
                "synth_ms": _milliseconds(part.synthesis_seconds),
                "gpu_ms": _milliseconds(part.device_seconds),
            }
            for part in job.partitions
        ],
    }


def _workers(devices: Sequence[DeviceReport], running: Sequence[JobReport]) -> list[dict[str, Any]]:
    at_work = {
        job.job_id: [p.index for p in job.partitions if p.state in (*_HOST, *_DEVICE)]
        for job in running
    }
    workers = []
    for k, device in enumerate(devices):
        parts = at_work.get(device.job_id, [])
        workers.append(
            {
                "worker_id": k,
                "gpu_ordinal": device.ordinal,
                "state": "proving" if device.job_id else "idle",
                "current_job": device.job_id or None,
                "current_partition": parts.pop(0) if parts else None,
                "busy_secs": None,
                "device": device.name,
            }
        )
    return workers


def _key(key: Any) -> dict[str, Any]:
    return {
        "circuit_id": key.circuit_id,
        "bytes": key.size_bytes,
        "last_used_secs_ago": 0.0 if key.users else None,
        "evictable": not key.users,
    }


def _counters(status: EngineStatus, jobs: Sequence[JobReport]) -> dict[str, Any]:
    by_kind = Counter((job.kind.value, job.state) for job in jobs)
    return {
        "total_completed": status.completed,
        "total_failed": status.failed,
        # of the jobs that are still known
        "completed_by_kind": {k: n for (k, s), n in by_kind.items() if s is JobState.COMPLETED},
        "failed_by_kind": {k: n for (k, s), n in by_kind.items() if s is JobState.FAILED},
        "queue_depth": sum(status.pending.values()),
    }


def _job(job: JobReport, now: float) -> dict[str, Any]:
    return {
        "job_id": job.job_id,
        "kind": job.kind.value,
        "sector_size": job.sector_size,
        "priority": job.priority.name.lower(),
        "state": job.state.value,
        "accepted_secs_ago": max(now - job.accepted_at, 0.0),
        "seconds": {
            "queue_wait": job.seconds.queue_wait,
            "key_load": job.seconds.key_load,
            "synthesis": job.seconds.synthesis,
            "device": job.seconds.device,
            "total": job.seconds.total,
        },
        "error": job.error_type,
        "message": job.error_message,
    }


def _milliseconds(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds * 1000)
