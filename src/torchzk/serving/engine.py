"""What a service is made of: the front, which speaks gRPC, asks an `Engine`, which has the jobs.

The front never blocks on a job: it watches it. Every method of an engine may be called by any
thread, at any time, and several at once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from typing import Protocol


class ProofKind(Enum):
    """The four kinds of proof, by the names that cuzk's status gives them."""

    POREP = "porep-c2"
    UPDATE = "snap-update"
    WINDOW = "window-post"
    WINNING = "winning-post"


class Priority(IntEnum):
    """How much of a hurry a client is in: cuzk's classes, by its numbers."""

    LOW = 1
    NORMAL = 2
    HIGH = 3
    CRITICAL = 4


class JobState(Enum):
    """Where a job is. It goes from queued to running, back after a restart, and ends once."""

    QUEUED = "queued"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    EXPIRED = "expired"
    """Its own deadline passed. A client that stops waiting ends nothing."""

    @property
    def ended(self) -> bool:
        return self not in (JobState.QUEUED, JobState.RUNNING)


@dataclass(frozen=True, kw_only=True)
class ProofRequest:
    """One proof to be made, as a client asked for it.

    Fields by themselves are checked: their lengths, a registered proof of this kind and sector
    size. Whether `vanilla_proofs` can be read, agree with the fields and hold is the engine's to
    find out.
    """

    request_id: str
    """The client's own name for it: any text, never part of a path; empty where it has none."""
    kind: ProofKind
    sector_size: int
    """Bytes of a sector."""
    registered_proof: int | None
    """Number of the registered seal, PoSt or update proof: see `circuits.registered`. None where
    the message has 0, which says nothing; then the payload says it, or it is the network's."""
    priority: Priority
    vanilla_proofs: tuple[bytes, ...] = field(repr=False)
    """PoRep: one, a C1 output. PoSt: one a sector, in bincode. Update: one a partition, in
    bincode."""
    sector_number: int = 0
    miner_id: int = 0
    partition_index: int = 0
    """Window PoSt: which partition of the deadline."""
    randomness: bytes = b""
    """PoSt: 32 bytes, otherwise empty; so the next three for updates."""
    comm_r_old: bytes = b""
    comm_r_new: bytes = b""
    comm_d_new: bytes = b""
    seconds: float | None = None
    """How long it may take until it is worthless, or None."""

    def digest(self) -> bytes:
        """SHA-256 of what is to be proven: of all but request id, priority and deadline.

        Two requests of one id and one digest are one job.
        """
        hashed = hashlib.sha256(b"torchzk proof request 1\0" + self.kind.value.encode() + b"\0")
        numbers = (
            self.sector_size,
            self.registered_proof or 0,
            self.sector_number,
            self.miner_id,
            self.partition_index,
        )
        for number in numbers:
            hashed.update(number.to_bytes(8, "little"))
        named = (self.randomness, self.comm_r_old, self.comm_r_new, self.comm_d_new)
        for piece in (*named, *self.vanilla_proofs):
            hashed.update(len(piece).to_bytes(8, "little"))
            hashed.update(piece)
        return hashed.digest()


@dataclass(frozen=True)
class Accepted:
    """A request that is on disk: whatever happens to the process, its job ends."""

    job_id: str
    """The request's id if no other job has it, or else a new one."""
    queue_position: int
    """Jobs of all kinds that are served before it; 0 where it runs or has ended."""
    joined: bool
    """There was a job of this id and digest, and this is it."""


@dataclass(frozen=True, kw_only=True)
class JobSeconds:
    """Where a job's time went, each 0 as long as it has not begun."""

    queue_wait: float = 0.0
    key_load: float = 0.0
    synthesis: float = 0.0
    """Reading, checking, assigning: all but the proving itself. Sum over partitions."""
    device: float = 0.0
    """Time a device was held. Sum over partitions."""
    total: float = 0.0
    """From acceptance to the end, or to now."""


@dataclass(frozen=True, kw_only=True)
class PartitionReport:
    """One partition, in cuzk's words: pending, synthesizing, synth_done, gpu, done or failed."""

    index: int
    state: str
    synthesis_seconds: float | None = None
    device_seconds: float | None = None


@dataclass(frozen=True, kw_only=True)
class JobReport:
    """A job at one moment."""

    job_id: str
    request_id: str
    kind: ProofKind
    sector_size: int
    priority: Priority
    state: JobState
    accepted_at: float
    """Unix time, in seconds."""
    seconds: JobSeconds = JobSeconds()
    proof: bytes = field(default=b"", repr=False)
    """192 bytes a partition, pairing-checked; of a completed job, otherwise empty."""
    error_type: str = ""
    """The class in `errors` of what it ended with; empty unless it failed."""
    error_message: str = ""
    partitions: tuple[PartitionReport, ...] = ()


@dataclass(frozen=True, kw_only=True)
class DeviceReport:
    """One worker of one device."""

    ordinal: int
    name: str
    vram_total_bytes: int
    vram_free_bytes: int
    job_id: str = ""
    """What it works on; empty where it is idle."""
    kind: ProofKind | None = None
    set_aside: bool = False
    """It failed and gets no more work."""


@dataclass(frozen=True, kw_only=True)
class KeyReport:
    """One key that is loaded."""

    circuit_id: str
    place: str
    """Where its points lie: `device`, `pinned`, `mapped`."""
    size_bytes: int
    users: int
    """Jobs that hold it now."""


@dataclass(frozen=True, kw_only=True)
class EngineStatus:
    """An engine at one moment."""

    devices: tuple[DeviceReport, ...]
    keys: tuple[KeyReport, ...]
    pending: Mapping[ProofKind, int]
    """Jobs that wait, whatever queue they are in; 0 for kinds left out."""
    running: Mapping[ProofKind, int]
    completed: int
    """Of all times, restarts included."""
    failed: int
    uptime_seconds: float
    pinned_bytes: int = 0
    pinned_limit_bytes: int = 0
    ready: bool = True
    """It takes jobs: a device is left, it is not draining, its disk can be written."""


@dataclass(frozen=True)
class Preloaded:
    """What `preload` did."""

    already_loaded: bool
    seconds: float


@dataclass(frozen=True)
class Evicted:
    """What `evict` did."""

    was_loaded: bool
    freed_bytes: int


class Engine(Protocol):
    """Jobs that are kept, and what proves them."""

    def submit(self, request: ProofRequest) -> Accepted:
        """Accept a request, and return when it is on disk; or join the job it is the same as.

        Raises:
            InputError: It cannot be read, or contradicts itself, as far as that is quick to see.
            ConfigError: This engine does not serve its circuit.
            QueueFullError: There are too many jobs; with how many there are and may be.
            ResourceError: It can never fit, or the disk is full; with the numbers.
            DrainingError: No more jobs are taken.
        """
        ...

    def watch(self, job_id: str, ended: Callable[[JobReport], None]) -> Callable[[], None]:
        """Have `ended` called once when the job has ended, at once if it has already.

        `ended` may be called by any thread, also before this returns; it returns at once.

        Returns:
            What to call to watch it no longer; it never fails.

        Raises:
            NotFoundError: There is no such job.
        """
        ...

    def job(self, job_id: str) -> JobReport:
        """One job now; raises `NotFoundError`."""
        ...

    def jobs(self) -> Sequence[JobReport]:
        """Every job that has not ended, and those kept since they ended, oldest first.

        Their `proof` is left empty.
        """
        ...

    def cancel(self, job_id: str) -> bool:
        """Cancel a job, whoever waits for it; one that has ended stays as it is.

        Returns:
            Whether it was running. It ends soon, which its watchers hear of.

        Raises:
            NotFoundError: There is no such job.
        """
        ...

    def status(self) -> EngineStatus:
        """Devices, keys and counts now."""
        ...

    def refused(self, call: str, code: str) -> None:
        """Count a call that was refused, by engine or front; both words are from closed lists."""
        ...

    def metrics(self) -> str:
        """Metrics in Prometheus' text format."""
        ...

    def preload(self, circuit_id: str) -> Preloaded:
        """Load the key of a circuit, such as `porep-32GiB`, and return when it is there.

        Raises:
            NotFoundError: There is no such circuit here.
            KeyFileError: The key is damaged or missing.
            ResourceError: There is not enough memory for it; with the numbers.
        """
        ...

    def evict(self, circuit_id: str) -> Evicted:
        """Let go of the key of a circuit.

        Raises:
            NotFoundError: There is no such circuit here.
            ResourceError: Jobs hold it; with how many.
        """
        ...

    def drain(self) -> None:
        """Take no more jobs from now on; those that are there go on. Returns at once."""
        ...

    def close(self, patience: float) -> int:
        """Stop, after `patience` seconds for what runs; the rest goes on at the next start.

        Returns:
            How many jobs are left for it.
        """
        ...
