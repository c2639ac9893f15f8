"""Sectors of one circuit through a service, as a sweep wants them: a run each, all verified.

The key is made once, and moved to the host once. Every sector is the same job file, read, checked
and proved as if it were another one's, with one r and s, so that the bytes can be compared.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch

from torchzk import api
from torchzk.backends import BackendName
from torchzk.bench.proof_cases import ProofBenchmark
from torchzk.bench.proof_inputs import Inputs, inputs_agree
from torchzk.bench.proofs import FIXED, free
from torchzk.bench.sweep import Proven
from torchzk.bench.sweep_cases import Setting
from torchzk.circuits.circuit import Job
from torchzk.config import CircuitConfig, Config
from torchzk.errors import ConfigError, ProofError, ResourceError
from torchzk.groth16.host_key import held_on_host
from torchzk.groth16.proofs import read_proofs
from torchzk.groth16.prover import Randomisers
from torchzk.groth16.verifier import verify_batch
from torchzk.scheduler.device_clocks import clocks_of
from torchzk.scheduler.kernel_profile import KernelWatch
from torchzk.scheduler.key_store import Keys
from torchzk.scheduler.proof_work import ProofWork, UnreadWork
from torchzk.scheduler.service import Limits
from torchzk.scheduler.session import Session
from torchzk.scheduler.sinks import Run, open_run, timeline
from torchzk.scheduler.synthetic_input import MINER_ID, SECTOR_NUMBER
from torchzk.timeline import Timeline

_WARM_UPS = {"cuda": 2, "cpu": 1}


@dataclass(frozen=True)
class Place:
    """Where sectors are proved, and who is told."""

    devices: tuple[torch.device, ...]
    """All alike, each with as many workers as a setting says."""
    backend: BackendName
    inputs: Inputs
    watcher: Timeline
    """Sees every span."""
    warn: Callable[[str], None]
    runs: Path
    """The folder of all runs."""
    profile_seconds: float | None = None
    """How long to look at every kernel in each setting."""
    partitions: int | None = None
    """The first of each sector that are proved; all if None."""
    pictures: bool = True
    """Whether each setting's timeline is drawn, which takes a second."""
    witness_graph: bool = True
    """As in a config, and captured while everything is made warm."""

    @property
    def device(self) -> torch.device:
        """The first, where jobs are checked."""
        return self.devices[0]


@dataclass
class ServiceProver:
    """Proves sectors of a benchmark's circuit. Close it, or use it in a `with`."""

    benchmark: ProofBenchmark
    place: Place
    _path: Path = field(default_factory=Path)
    _job: Job | None = None
    _sessions: list[Session] = field(default_factory=list)
    _keys: list[Keys] = field(default_factory=list)
    """One a device; the same on all if it lies on the host."""

    @property
    def circuit(self) -> str:
        return self.benchmark.short

    @property
    def log_n(self) -> int:
        """Of the evaluation domain."""
        return self.session.r1cs.domain.log_n

    def __enter__(self) -> ServiceProver:
        """Read the job and record the constraints."""
        self._sessions = self._open(None)
        session = self.session
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
        for keys in self._keys:
            keys.close()
        # the limit is lifted
        self._open(None)

    def prepare(self, setting: Setting) -> None:
        """Have the key where it is wanted, within the limit, and everything warm.

        Raises:
            ConfigError: On a CPU a key has no other place, and no limit is kept.
            ResourceError: The key does not fit, or a partition does not.
        """
        self._refuse(setting)
        to_host = setting.residency == "host"
        if not self._keys or (to_host and self._keys[0].stays):
            # made and moved with all the memory there is
            self._settle(None)
        if not self._keys:
            self._make_keys()
        if to_host and self._keys[0].stays:
            self._move()
        self._settle(setting.limit)
        for device in self.place.devices:
            free(device)
        for session, keys in zip(self._sessions, self._keys, strict=True):
            if session.device.type == "cuda" and keys.stays == to_host:
                raise ResourceError(f"{setting.name}: the key does not stay on {session.device}")
            # says so if a partition does not fit
            session.plan_for(key_stays=keys.stays)
        with self.place.watcher.span("warm up"):
            self._warm_up()

    def prove(self, setting: Setting, sectors: int) -> Proven:
        """Put sectors through; their timeline is kept in `runs/`.

        Raises:
            TorchzkError: What the first sector that failed ended with.
        """
        place = self.place
        title = f"sweep {self.session.circuit.name}: {setting.name}"
        facts = {"sectors": str(sectors)}
        facts |= {} if place.witness_graph else {"witness": "by no graph"}
        with open_run(place.runs, title, place.warn, facts) as run:
            run.drawn = place.pictures
            run.clock = clocks_of(place.devices)
            if place.profile_seconds is not None:
                run.watch = KernelWatch(place.profile_seconds, place.warn, skipped=setting.workers)
                with place.watcher.span("attach profiler"):
                    run.watch.attach()
            sites = self._within(run, setting)
            plans = [site.plan() for site in sites]
            run.planned |= sites[0].session.plan.stage_bytes
            start = time.perf_counter_ns()
            proofs = self._through(sites, setting, sectors)
            record = run.record()
            # where memory runs out, a session goes by another plan from then on
            replanned = any(
                site.session.plan is not before for site, before in zip(sites, plans, strict=True)
            )
        folder = run.folder()
        digests = frozenset(hashlib.sha256(proof).digest() for proof in proofs)
        return Proven(
            record,
            start,
            _at_most(self.place.partitions, self._known_job),
            digests,
            len(place.devices),
            replanned,
            str(folder) if folder else None,
        )

    def _through(self, sites: Sequence[api.Site], setting: Setting, sectors: int) -> list[bytes]:
        limits = Limits(submitted=sectors, proving=setting.in_flight)
        by_device = {site.device: site for site in sites}
        with api.ProofService(sites, limits=limits) as service:
            jobs = []
            for k in range(sectors):
                name = f"sector-{k}"
                work = _Sector(self.place.partitions, by_device, self._path, name)
                jobs.append(service.service.submit(name, work))
            for job in jobs:
                job.wait()
        return [job.result() for job in jobs]

    def _within(self, run: Run, setting: Setting) -> list[api.Site]:
        """The sessions with the setting's schedule, watched by the run; their plans are kept."""
        watched = timeline(run, self.place.watcher)
        sites = []
        for session, keys in zip(self._sessions, self._keys, strict=True):
            config = replace(
                session.config,
                policy=setting.policy,  # type: ignore[arg-type]
                workers=setting.workers,
            )
            own = replace(session, config=config, timeline=watched)
            own.take_constraints(session)
            sites.append(_site(own, keys))
        return sites

    def _warm_up(self) -> None:
        """The first partition, alone: what is first done compiles, loads and captures."""
        for session, keys in zip(self._sessions, self._keys, strict=True):
            site = _site(session, keys)
            for _ in range(_WARM_UPS[session.device.type]):
                with api.ProofService([site]) as service:
                    work = _FirstPartition({site.device: site}, self._known_job, None, "warm up")
                    service.service.submit("warm up", work).result()

    def _settle(self, limit: int | None) -> None:
        """Sessions within a limit, with the constraints of the first."""
        before = self.session
        for session in self._sessions:
            # the next ones do not know of it
            session.residents.graphs.drop(session.device)
        self._sessions = self._open(limit)
        for session in self._sessions:
            session.take_constraints(before)

    def _refuse(self, setting: Setting) -> None:
        if self.place.device.type != "cuda" and setting.place != ("device", None):
            raise ConfigError(f"{setting.name}: on a {self.place.device} there is no such place")

    def _make_keys(self) -> None:
        """The same on every device, for dev keys are made of the same numbers."""
        for session in self._sessions:
            with on_device(session.device):
                self._keys.append(api.get_keys(session))

    def _move(self) -> None:
        """Points that all devices read, instead of those of each."""
        first, before = self._keys[0], self._keys
        on_host = held_on_host(first.proving, self.place.device)
        self._keys = [keys.moved_to_host(on_host) for keys in before]
        for keys in before:
            keys.close()

    def _open(self, limit: int | None) -> list[Session]:
        config = Config(
            circuit=CircuitConfig(kind=self.benchmark.kind, sector_size=self.benchmark.sector_size),
            keys="dev-in-memory",
            device=",".join(map(str, self.place.devices)),
            backend=self.place.backend,
            vram_limit=limit,
            witness_graph=self.place.witness_graph,
        )
        return api.open_sessions(config, self.place.watcher, self.place.warn)

    @property
    def session(self) -> Session:
        """The first device's, which jobs and constraints are of; once entered."""
        return self._sessions[0]

    @property
    def sessions(self) -> Sequence[Session]:
        """One a device; once entered."""
        return self._sessions

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


class _Sector(UnreadWork):
    """A sector from its file to verified proofs, or the first of its partitions."""

    def __init__(
        self, most: int | None, sites: Mapping[str, api.Site], path: Path, name: str
    ) -> None:
        super().__init__(sites, path, _fixed, name, miner_id=MINER_ID, sector_number=SECTOR_NUMBER)
        self._most = most

    @property
    def n_partitions(self) -> int:
        return _at_most(self._most, self.job)

    def finish(self, pieces: Sequence[bytes]) -> bytes:
        n = len(pieces)
        if n == self.job.n_partitions:
            return super().finish(pieces)
        site, raw = next(iter(self._sites.values())), b"".join(pieces)
        with site.session.timeline.on_lane(self._lane).span("verify"):
            inputs = [site.session.circuit.public_inputs(self.job, k) for k in range(n)]
            if not verify_batch(site.keys.verifying, read_proofs(raw, n), inputs):
                raise ProofError(f"{self._name}: the first {n} proofs do not hold")
        return raw


def _site(session: Session, keys: Keys) -> api.Site:
    with on_device(session.device):
        return api.Site(session, keys)


def _at_most(most: int | None, job: Job) -> int:
    return job.n_partitions if most is None else min(most, job.n_partitions)


def _fixed(job: Job) -> list[Randomisers]:
    return [FIXED] * job.n_partitions


def on_device(device: torch.device) -> AbstractContextManager[object]:
    """Make a CUDA device the thread's current one."""
    return torch.cuda.device(device) if device.type == "cuda" else nullcontext()
