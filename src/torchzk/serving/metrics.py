"""What Prometheus reads: counters that only grow, histograms, and the state when it is asked for.

Labels come from closed lists; nothing that a client sends is ever one. A registry of its own, so
that several services in a process do not mix.
"""

from __future__ import annotations

import platform
import re
from collections.abc import Callable, Iterable

import torch
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, InfoMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

import torchzk
from torchzk.errors import TorchzkError
from torchzk.scheduler.lanes import LaneKind, lane_of, promised
from torchzk.scheduler.swap_watch import swapped_bytes
from torchzk.serving.engine import EngineStatus, JobReport, JobState, Priority, ProofKind
from torchzk.timeline import Span

_JOB_BUCKETS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 7200)
_STAGE_BUCKETS = (0.001, 0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)
_STAGE = re.compile(r"([a-z][a-z0-9_-]*(?: [a-z][a-z0-9_-]*)*)(?:[ :(].*)?", re.IGNORECASE)
"""What a stage is called, up to a number of its own, as in `partition 3`."""
_MOST_STAGES = 100
"""Names of stages are the program's own; a bound all the same, since each costs memory for ever."""

KIND_LABELS = {
    ProofKind.POREP: "porep_c2",
    ProofKind.UPDATE: "snap_update",
    ProofKind.WINDOW: "window_post",
    ProofKind.WINNING: "winning_post",
}
"""As cuzk's metrics call the kinds."""


class Metrics:
    """The metrics of one engine. For any number of threads."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        ProcessCollector(namespace="torchzk", registry=registry)
        swap = Gauge("torchzk_process_swap_bytes", "Of this process in swap.", registry=registry)
        swap.set_function(swapped_bytes)
        self._stages: set[str] = set()

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"torchzk_{name}", text, labels, registry=registry)

        def histogram(
            name: str, text: str, labels: Iterable[str], buckets: tuple[float, ...]
        ) -> Histogram:
            return Histogram(f"torchzk_{name}", text, labels, registry=registry, buckets=buckets)

        self._accepted = counter("jobs_accepted", "Jobs on disk.", "proof_kind", "priority")
        self._joined = counter("jobs_joined", "Requests that were a job already.", "proof_kind")
        self._resumed = counter("jobs_resumed", "Jobs of an earlier process.", "proof_kind")
        self._ended = counter("jobs_ended", "Jobs, by how they ended.", "proof_kind", "state")
        self._refused = counter("requests_refused", "Requests, by error.", "error")
        self._calls = counter("calls_refused", "Calls, by gRPC's status.", "call", "status")
        self._partitions = counter(
            "partitions_proved", "Partitions proved.", "proof_kind", "device"
        )
        self._reused = counter(
            "partitions_reused", "Partitions proved by an earlier process.", "proof_kind"
        )
        self._faults = counter(
            "selfcheck_failures", "Proofs that did not hold, none of which left.", "proof_kind"
        )
        self._retries = counter("job_retries", "Jobs proved once more.", "proof_kind")
        self._aside = counter("devices_set_aside", "Devices that failed.", "device")
        self._store = counter("store_errors", "Faults of disk or database.", "operation")
        self._memory = counter("out_of_memory", "Jobs that failed for want of memory.")
        self._seconds = histogram(
            "job_seconds", "From acceptance to the end.", ("proof_kind",), _JOB_BUCKETS
        )
        self._wait = histogram(
            "queue_wait_seconds", "Until a device took it up.", ("proof_kind",), _JOB_BUCKETS
        )
        self._stage = histogram("stage_seconds", "Stages.", ("stage",), _STAGE_BUCKETS)
        self._lock = histogram("lock_wait_seconds", "Workers.", ("device", "lock"), _STAGE_BUCKETS)
        self._promised = Gauge(
            "torchzk_vram_promised_bytes",
            "What plans of partitions hold.",
            ("device",),
            registry=registry,
        )
        self._planned = Gauge(
            "torchzk_vram_planned_bytes",
            "The most that a proof takes, by plan.",
            ("device", "circuit"),
            registry=registry,
        )
        self._load = histogram("key_load_seconds", "Keys asked for.", (), _JOB_BUCKETS)
        for kind in KIND_LABELS.values():
            # what is counted from 0 on is seen to grow the first time too
            for family in (self._joined, self._faults, self._retries, self._resumed):
                family.labels(kind)
            for state in JobState:
                if state.ended:
                    self._ended.labels(kind, state.value)

    def accepted(self, kind: ProofKind, priority: Priority) -> None:
        """A job is on disk."""
        self._accepted.labels(KIND_LABELS[kind], priority.name.lower()).inc()

    def joined(self, kind: ProofKind) -> None:
        """A request was the same as a job."""
        self._joined.labels(KIND_LABELS[kind]).inc()

    def resumed(self, kind: ProofKind, n_partitions: int) -> None:
        """A job of an earlier process goes on, with so many partitions proved."""
        self._resumed.labels(KIND_LABELS[kind]).inc()
        self._reused.labels(KIND_LABELS[kind]).inc(n_partitions)

    def refused(self, error: BaseException) -> None:
        """A request was turned away."""
        known = isinstance(error, TorchzkError)
        self._refused.labels(type(error).__name__ if known else "other").inc()

    def call_refused(self, call: str, code: str) -> None:
        """A call was refused, before it came to the engine or after."""
        self._calls.labels(call, code).inc()

    def ended(self, report: JobReport) -> None:
        """A job ended."""
        kind, seconds = KIND_LABELS[report.kind], report.seconds
        self._ended.labels(kind, report.state.value).inc()
        self._seconds.labels(kind).observe(seconds.total)
        self._wait.labels(kind).observe(seconds.queue_wait)
        if report.error_type in ("ResourceError", "MemoryError", "OutOfMemoryError"):
            self._memory.inc()

    def partition(self, kind: ProofKind, device: str) -> None:
        """A partition is proved."""
        self._partitions.labels(KIND_LABELS[kind], device).inc()

    def fault(self, kind: ProofKind) -> None:
        """A proof did not hold."""
        self._faults.labels(KIND_LABELS[kind]).inc()

    def retried(self, kind: ProofKind) -> None:
        """A job is proved once more."""
        self._retries.labels(KIND_LABELS[kind]).inc()

    def set_aside(self, device: str) -> None:
        """A device gets no more work."""
        self._aside.labels(device).inc()

    def store_error(self, operation: str) -> None:
        """The store could not do something."""
        self._store.labels(operation).inc()

    def key_loaded(self, seconds: float) -> None:
        """A key was asked for, and is there."""
        self._load.observe(seconds)

    def on_span(self, span: Span) -> None:
        """For `Timeline.on_close`: how long a stage took, or somebody waited for a lock."""
        lane = lane_of(span.lane)
        if lane.of_lock:
            # their names are those of workers, and a hold is what is done in it
            if lane.kind is LaneKind.WAITS:
                lock = "compute" if "compute" in lane.name else "mem"
                self._lock.labels(lane.device or "", lock).observe(span.seconds)
            return
        match = _STAGE.fullmatch(span.name)
        stage = match[1].lower()[:40] if match else "other"
        if stage not in self._stages:
            if len(self._stages) >= _MOST_STAGES:
                stage = "other"
            self._stages.add(stage)
        self._stage.labels(stage).observe(span.seconds)

    def on_level(self, name: str, value: int) -> None:
        """For `Timeline.on_level`: bytes that the plans of a device's partitions hold."""
        device, _, what = name.rpartition(" ")
        if name == promised(device) and what:
            self._promised.labels(device).set(value)

    def planned(self, device: str, circuit: str, peak_bytes: int) -> None:
        """What a proof of a circuit takes of a device at most, as its plan says."""
        self._planned.labels(device, circuit).set(peak_bytes)

    def watch(self, status: Callable[[], EngineStatus], oldest: Callable[[], float]) -> None:
        """Ask an engine for its state whenever metrics are asked for.

        Args:
            status: The engine's.
            oldest: Seconds that the job has waited that waits longest.
        """
        self.registry.register(_Now(status, oldest))

    def text(self) -> str:
        """All of it, in Prometheus' text format."""
        return generate_latest(self.registry).decode()


class _Now(Collector):
    """Gauges, made when they are asked for."""

    def __init__(self, status: Callable[[], EngineStatus], oldest: Callable[[], float]) -> None:
        self._status, self._oldest = status, oldest

    def describe(self) -> Iterable[Metric]:
        """Nothing: an engine that starts cannot be asked yet."""
        return ()

    def collect(self) -> Iterable[Metric]:
        status = self._status()
        info = InfoMetricFamily("torchzk_build", "What runs.")
        versions = {"version": torchzk.__version__, "torch": torch.__version__}
        info.add_metric([], {**versions, "python": platform.python_version()})
        yield info
        jobs = GaugeMetricFamily("torchzk_jobs", "Jobs now.", labels=("proof_kind", "state"))
        for kind, label in KIND_LABELS.items():
            jobs.add_metric((label, "queued"), status.pending.get(kind, 0))
            jobs.add_metric((label, "running"), status.running.get(kind, 0))
        yield jobs
        # one device has several workers
        devices = {device.name: device for device in status.devices}.values()
        up = GaugeMetricFamily("torchzk_device_up", "Whether it gets work.", labels=("device",))
        total = GaugeMetricFamily("torchzk_vram_total_bytes", "It has.", labels=("device",))
        free = GaugeMetricFamily("torchzk_vram_free_bytes", "Nobody has.", labels=("device",))
        for device in devices:
            up.add_metric((device.name,), not device.set_aside)
            total.add_metric((device.name,), device.vram_total_bytes)
            free.add_metric((device.name,), device.vram_free_bytes)
        yield from (up, total, free)
        workers = GaugeMetricFamily("torchzk_workers", "Workers.", labels=("device", "state"))
        for name in sorted({d.name for d in status.devices}):
            busy = sum(bool(d.job_id) for d in status.devices if d.name == name)
            every = sum(d.name == name for d in status.devices)
            workers.add_metric((name, "busy"), busy)
            workers.add_metric((name, "idle"), every - busy)
        yield workers
        size = GaugeMetricFamily("torchzk_key_bytes", "Loaded.", labels=("circuit", "place"))
        users = GaugeMetricFamily("torchzk_key_users", "Have it.", labels=("circuit", "place"))
        for key in status.keys:
            size.add_metric((key.circuit_id, key.place), key.size_bytes)
            users.add_metric((key.circuit_id, key.place), key.users)
        yield from (size, users)
        plain = {
            "ready": ("Whether jobs are taken.", float(status.ready)),
            "uptime_seconds": ("Of this process.", status.uptime_seconds),
            "queue_oldest_seconds": ("How long the first has waited.", self._oldest()),
            "pinned_bytes": ("Pinned memory of the host.", status.pinned_bytes),
        }
        for name, (text, value) in plain.items():
            gauge = GaugeMetricFamily(f"torchzk_{name}", text, value=float(value))
            yield gauge
