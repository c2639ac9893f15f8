"""Sectors of one circuit through a service, as a sweep wants them: a run each, all verified.

The key is made once, and moved to the host once. Every sector is the same job file, read, checked
and proved as if it were another one's, with one r and s, so that the bytes can be compared.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch

from torchzk import api
from torchzk.backends import BackendName
from torchzk.bench.proof_cases import ProofBenchmark
from torchzk.bench.proof_inputs import MINER_ID, SECTOR_NUMBER, Inputs, inputs_agree
from torchzk.bench.proofs import FIXED, free
from torchzk.bench.sweep import Proven
from torchzk.bench.sweep_cases import Setting
from torchzk.circuits.circuit import Job
from torchzk.config import CircuitConfig, Config
from torchzk.errors import ConfigError, ProofError, ResourceError
from torchzk.groth16.host_key import held_on_host
from torchzk.groth16.prover import Randomisers
from torchzk.scheduler.device_clocks import clocks_of
from torchzk.scheduler.kernel_profile import KernelWatch
from torchzk.scheduler.key_store import Keys
from torchzk.scheduler.proof_work import ProofWork
from torchzk.scheduler.service import Limits
from torchzk.scheduler.session import Session
from torchzk.scheduler.sinks import Run, open_run, timeline
from torchzk.timeline import Timeline

_WARM_UPS = {"cuda": 2, "cpu": 1}


@dataclass(frozen=True)
class Place:
    """Where sectors are proved, and who is told."""

    device: torch.device
    backend: BackendName
    inputs: Inputs
    watcher: Timeline
    """Sees every span."""
    warn: Callable[[str], None]
    runs: Path
    """The folder of all runs."""
    profile_seconds: float | None = None
    """How long to look at every kernel in each setting."""


@dataclass
class ServiceProver:
    """Proves sectors of a benchmark's circuit. Close it, or use it in a `with`."""

    benchmark: ProofBenchmark
    place: Place
    _path: Path = field(default_factory=Path)
    _job: Job | None = None
    _session: Session | None = None
    _keys: Keys | None = None

    @property
    def circuit(self) -> str:
        return self.benchmark.short

    @property
    def log_n(self) -> int:
        """Of the evaluation domain."""
        return self.session.r1cs.domain.log_n

    def __enter__(self) -> ServiceProver:
        """Read the job and record the constraints."""
        self._session = session = self._open(None, self.place.watcher)
        self._path, _ = self.place.inputs.job(self.benchmark, self.place.watcher)
        self._job = job = api.load_job(
            session, self._path, miner_id=MINER_ID, sector_number=SECTOR_NUMBER
        )
        if not inputs_agree(self.benchmark, session.circuit, job):
            raise ProofError(f"{self.benchmark.name}: public inputs are not those of the sector")
        # recorded once for all
        _ = session.r1cs
        return self

    def __exit__(self, *_: object) -> None:
        if self._keys is not None:
            self._keys.close()
        # the limit is lifted
        self._open(None, self.place.watcher)

    def prepare(self, setting: Setting) -> None:
        """Have the key where it is wanted, within the limit, and everything warm.

        Raises:
            ConfigError: On a CPU a key has no other place, and no limit is kept.
            ResourceError: The key does not fit, or a partition does not.
        """
        if self.place.device.type != "cuda" and setting.place != ("device", None):
            raise ConfigError(f"{setting.name}: on a {self.place.device} there is no such place")
        if self._keys is None or (self._keys.stays, setting.residency) == (True, "host"):
            # made and moved with all the memory there is
            self._settle(None)
        if self._keys is None:
            self._keys = api.get_keys(self.session)
        if setting.residency == "host" and self._keys.stays:
            self._move(self._keys)
        self._settle(setting.limit)
        free(self.place.device)
        if self.place.device.type == "cuda" and self._keys.stays != (setting.residency == "device"):
            raise ResourceError(f"{setting.name}: the key does not stay on the device")
        session = self.session
        session.plan_for(key_stays=self._keys.stays)
        with self.place.watcher.span("warm up"):
            self._warm_up(session)

    def prove(self, setting: Setting, sectors: int) -> Proven:
        """Put sectors through; their timeline is kept in `runs/`.

        Raises:
            TorchzkError: What the first sector that failed ended with.
        """
        place = self.place
        title = f"sweep {self.session.circuit.name}: {setting.name}"
        with open_run(place.runs, title, place.warn, {"sectors": str(sectors)}) as run:
            run.clock = clocks_of([place.device])
            if place.profile_seconds is not None:
                run.watch = KernelWatch(place.profile_seconds, place.warn, skipped=setting.workers)
            session = self._within(run, setting)
            run.planned |= session.plan.stage_bytes
            start = time.perf_counter_ns()
            proofs = self._through(session, setting, sectors)
            record = run.record()
        folder = run.folder()
        digests = frozenset(hashlib.sha256(proof).digest() for proof in proofs)
        partitions = self._known_job.n_partitions
        return Proven(record, start, partitions, digests, str(folder) if folder else None)

    def _through(self, session: Session, setting: Setting, sectors: int) -> list[bytes]:
        limits = Limits(submitted=sectors, proving=setting.in_flight)
        with api.ProofService([api.Site(session, self._made)], limits=limits) as service:
            jobs = [
                service.submit_source(
                    self._path,
                    _fixed,
                    name=f"sector-{k}",
                    miner_id=MINER_ID,
                    sector_number=SECTOR_NUMBER,
                )
                for k in range(sectors)
            ]
            for job in jobs:
                job.wait()
        return [job.result() for job in jobs]

    def _within(self, run: Run, setting: Setting) -> Session:
        """The session with the setting's schedule, watched by the run; its plan is kept."""
        session = self.session
        config = replace(session.config, policy=setting.policy, workers=setting.workers)  # type: ignore[arg-type]
        watched = replace(session, config=config, timeline=timeline(run, self.place.watcher))
        vars(watched)["r1cs"] = session.r1cs
        vars(watched)["sizes"] = session.sizes
        return watched

    def _warm_up(self, session: Session) -> None:
        """The first partition, alone: what is first done compiles, loads and captures."""
        site = api.Site(session, self._made)
        for _ in range(_WARM_UPS[self.place.device.type]):
            with api.ProofService([site]) as service:
                work = _FirstPartition({site.device: site}, self._known_job, None, "warm up")
                service.service.submit("warm up", work).result()

    def _settle(self, limit: int | None) -> None:
        """A session within a limit, with the constraints of the first."""
        before = self.session
        self._session = self._open(limit, self.place.watcher)
        vars(self._session)["r1cs"] = before.r1cs

    def _move(self, keys: Keys) -> None:
        on_host = held_on_host(keys.proving, self.place.device)
        self._keys = replace(keys, proving=on_host, where="host", _held=ExitStack())
        keys.close()

    def _open(self, limit: int | None, watched: Timeline) -> Session:
        config = Config(
            circuit=CircuitConfig(kind=self.benchmark.kind, sector_size=self.benchmark.sector_size),
            keys="dev-in-memory",
            device=str(self.place.device),
            backend=self.place.backend,
            vram_limit=limit,
        )
        return api.open_session(config, watched, self.place.warn)

    @property
    def session(self) -> Session:
        """The one that keys and constraints are of; once entered."""
        assert self._session is not None
        return self._session

    @property
    def _made(self) -> Keys:
        assert self._keys is not None
        return self._keys

    @property
    def _known_job(self) -> Job:
        assert self._job is not None
        return self._job


class _FirstPartition(ProofWork):
    """Nothing but the first partition of a job; its proof is not verified."""

    @property
    def n_partitions(self) -> int:
        return 1

    def finish(self, pieces: Sequence[bytes]) -> bytes:
        return b"".join(pieces)


def _fixed(job: Job) -> list[Randomisers]:
    return [FIXED] * job.n_partitions
