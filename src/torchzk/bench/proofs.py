"""Whole proofs measured: keys made, partitions, a sector, and less memory, step by step.

Every step leaves its row as soon as it ends, so that what a later one does costs none. All proofs
are made with one r and s, so that their bytes can be compared, and all are verified.
"""

from __future__ import annotations

import gc
import hashlib
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch

from torchzk import api
from torchzk.backends import BackendName
from torchzk.bench.proof_cases import HOST_RSS, PLAN, SLOWER, ProofBenchmark, Target
from torchzk.bench.proof_floors import floors_ms
from torchzk.bench.proof_inputs import Inputs, inputs_agree
from torchzk.bench.proof_measures import (
    PARTITION,
    Figures,
    held_against,
    memory_of,
    since,
    slope,
    stages_ms,
    times_of,
)
from torchzk.bench.timing import synchronize
from torchzk.circuits.circuit import Job
from torchzk.config import CircuitConfig, Config
from torchzk.errors import ProofError, ResourceError, TorchzkError
from torchzk.groth16.host_key import held_on_host
from torchzk.groth16.proofs import read_proofs
from torchzk.groth16.prover import Randomisers
from torchzk.groth16.verifier import verify_batch
from torchzk.scheduler.key_store import Keys
from torchzk.scheduler.proof_work import prove_partition
from torchzk.scheduler.session import Session
from torchzk.scheduler.sinks import Run, peak_rss
from torchzk.scheduler.stages import RunRecord
from torchzk.scheduler.synthetic_input import MINER_ID, SECTOR_NUMBER
from torchzk.timeline import Timeline

FIXED = Randomisers(0x5EED0001, 0x5EED0002)
"""The r and s of every proof here."""
_WARM_UPS = {"cuda": 2, "cpu": 1}
_RUNS_WITHIN_LIMITS = 2


@dataclass(frozen=True)
class Setting:
    """Where proofs are measured, and who is told."""

    device: torch.device
    backend: BackendName
    inputs: Inputs
    run: Run
    """Keeps the spans; its clock is that of the device."""
    timeline: Timeline
    """Tells `run`."""
    runs: int
    """How often one partition is proven for its times; less often within limits."""
    limits: tuple[int, ...] | None
    """Instead of those of the benchmark."""
    emit: Callable[[Figures], None]
    """Keeps a row."""
    warn: Callable[[str], None]


@dataclass
class ProofSteps:
    """One benchmark on its way from a sector's name to the last limit."""

    benchmark: ProofBenchmark
    setting: Setting
    proof: bytes | None = None
    """Of the first partition, once it was made."""
    p50: float | None = None
    """Seconds of one partition with all the memory there is."""
    ok: bool = True
    _path: Path = field(default_factory=Path)

    def run(self) -> bool:
        """All steps in order; whether every one was right."""
        session = self._session(None)
        if not self._step("input", self._input):
            return False
        job = self._read(session)
        if job is None or not self._step("constraints", lambda: self._constraints(session)):
            return False
        made: list[Keys] = []
        if not self._step("keys", lambda: self._keys(session, made)):
            return False
        try:
            self._step("partition", lambda: self._partition(session, job, made[0], None))
            if self.benchmark.whole is not None:
                self._step("whole", lambda: self._whole(session, made[0]))
            if self.benchmark.repeats:
                self._step("repeated", lambda: self._repeated(session, job, made[0]))
            self._within_limits(session, job, made)
        finally:
            made.pop().close()
        return self.ok

    def _within_limits(self, session: Session, job: Job, made: list[Keys]) -> None:
        """A partition again with less, the largest limit first; then the limit is lifted."""
        limits = self.setting.limits
        if limits is None:
            # a limit is kept by the allocator of a GPU, and by no other
            limits = self.benchmark.limits if session.device.type == "cuda" else ()
        for limit in sorted(limits, reverse=True):
            if not self._within(limit, session, job, made):
                break
        self._session(None)

    def _within(self, limit: int, session: Session, job: Job, made: list[Keys]) -> bool:
        """A partition within a limit, the key where the plan has it; False if it cannot be moved.

        A key that does not stay is moved to the host once, before a limit holds.
        """
        free(session.device)
        limited = self._limited(limit, session)
        if made[0].stays and not self._stays(limited):
            without = self._limited(None, session)
            if not self._step("key to host", lambda: self._to_host(without, made)):
                return False
            limited = self._limited(limit, session)
        name = f"{limit / 1e9:g} GB"
        self._step(name, lambda: self._partition(limited, job, made[0], limit))
        return True

    def _limited(self, limit: int | None, session: Session) -> Session:
        limited = self._session(limit)
        limited.take_constraints(session)
        return limited

    def _stays(self, session: Session) -> bool:
        """Whether the plan has the key on the device; a step that has none will say so itself."""
        try:
            return session.plan.key_stays
        except ResourceError:
            return False

    def _to_host(self, session: Session, made: list[Keys]) -> Figures:
        keys = made[0]
        start = time.perf_counter()
        on_host = held_on_host(keys.proving, session.device)
        seconds = time.perf_counter() - start
        made[0] = keys.moved_to_host(on_host)
        keys.close()
        del keys
        free(session.device)
        n_bytes = session.plan.key_bytes
        return {"bytes": n_bytes, "bytes_per_s": n_bytes / seconds, "key_on": "host"}

    def _step(self, name: str, work: Callable[[], Figures]) -> bool:
        """Run one step and keep its row, whatever happens; go on after errors a proof may end with.

        Returns:
            Whether it was right.
        """
        start = time.perf_counter()
        try:
            with self.setting.timeline.span(name):
                figures = work()
        except Exception as e:
            self._keep(name, start, {"right": False, "error": f"{type(e).__name__}: {e}"})
            if not isinstance(e, TorchzkError | torch.OutOfMemoryError):
                raise
            self.setting.warn(f"{self.benchmark.name}, {name}: {type(e).__name__}: {e}")
            return False
        return self._keep(name, start, figures)

    def _keep(self, name: str, start: float, figures: Figures) -> bool:
        right = bool(figures.get("right", True))
        self.ok &= right
        seconds = time.perf_counter() - start
        head = {"name": self.benchmark.name, "step": name, "seconds": seconds, "right": right}
        self.setting.emit(head | figures | {"peak_rss_bytes": peak_rss()})
        return right

    def _session(self, limit: int | None) -> Session:
        b, setting = self.benchmark, self.setting
        config = Config(
            circuit=CircuitConfig(kind=b.kind, sector_size=b.sector_size),
            keys="dev-in-memory",
            device=str(setting.device),
            backend=setting.backend,
            vram_limit=limit,
        )
        return api.open_session(config, setting.timeline, setting.warn)

    def _input(self) -> Figures:
        self._path, made = self.setting.inputs.job(self.benchmark, self.setting.timeline)
        return {"made": made, "bytes": self._path.stat().st_size}

    def _read(self, session: Session) -> Job | None:
        jobs: list[Job] = []

        def work() -> Figures:
            job = self._load(session)
            jobs.append(job)
            return {
                "right": inputs_agree(self.benchmark, session.circuit, job),
                "partitions": job.n_partitions,
            }

        return jobs[0] if self._step("read", work) else None

    def _load(self, session: Session) -> Job:
        job = api.load_job(session, self._path, miner_id=MINER_ID, sector_number=SECTOR_NUMBER)
        api.check(session, job)
        return job

    def _constraints(self, session: Session) -> Figures:
        r1cs = session.r1cs
        return {"n_aux": r1cs.n_aux, "n_inputs": r1cs.n_inputs, "log_n": r1cs.domain.log_n}

    def _keys(self, session: Session, made: list[Keys]) -> Figures:
        first = len(self.setting.run.spans)
        start = time.perf_counter()
        made.append(api.get_keys(session))
        synchronize(session.device)
        seconds = time.perf_counter() - start
        part = since(self.setting.run.record(), first)
        plan = session.plan
        # the scratch, and of a key that stays all that is there by then
        made_in = plan.making_key + (plan.key_bytes if made[0].stays else 0)
        memory = memory_of(part, {"make key": made_in})
        return {
            "stages_ms": stages_ms(part),
            "points": vars(made[0].proving.lengths),
            **held_against(seconds, self.benchmark.keys),
            **memory,
            "plan": held_against(memory["planned_over_peak"], PLAN),
            "key_on": made[0].where,
        }

    def _partition(self, session: Session, job: Job, keys: Keys, limit: int | None) -> Figures:
        """The first partition, to warm up and then for its times; verified, its bytes compared."""
        parts: list[RunRecord] = []
        proofs: set[bytes] = set()
        site = api.Site(session, keys)
        plan = site.plan()
        # the first may compile and load, the second captures what the first has launched
        warm_ups, runs = _WARM_UPS[session.device.type], self.setting.runs
        if limit is not None:
            runs = min(runs, _RUNS_WITHIN_LIMITS)
        for k in range(warm_ups + runs):
            first = len(self.setting.run.spans)
            proofs.add(prove_partition(site, job, 0, FIXED))
            parts.append(since(self.setting.run.record(), first, PARTITION))
            self.setting.timeline.advance((k + 1) / (warm_ups + runs))
        proof = min(proofs)
        self._verify(session, job, proof, keys)
        same = len(proofs) == 1 and self.proof in (None, proof)
        times = times_of(parts[warm_ups:])
        p50 = times["p50_s"]
        self.proof = self.proof or proof
        replanned, plan = session.plan is not plan, session.plan
        memory = memory_of(parts[-1], plan.stage_bytes)
        figures: Figures = {
            "limit_bytes": limit,
            "first_s": times_of(parts[:1])["p50_s"],
            **times,
            **memory,
            "right": same,
            "same_bytes": same,
            "proof_sha256": hashlib.sha256(proof).hexdigest(),
            "key_on": keys.where,
            "in_turn": plan.room.in_turn,
            "replanned": replanned,
            "room": asdict(plan.room),
            "plan": held_against(memory["planned_over_peak"], PLAN),
        }
        if limit is None:
            self.p50 = p50
            rss = held_against(float(peak_rss()), HOST_RSS)
            return (
                figures
                | held_against(p50, self.benchmark.partition)
                | {
                    "host_rss": rss,
                    # of an H200: they say nothing of a CPU
                    "floors_ms": floors_ms(session, job) if session.device.type == "cuda" else {},
                }
            )
        slower = p50 / self.p50 if self.p50 else None
        return figures | held_against(slower, SLOWER.get(limit, Target())) | {"slower": slower}

    def _verify(self, session: Session, job: Job, proof: bytes, keys: Keys) -> None:
        with self.setting.timeline.span("verify"):
            public = session.circuit.public_inputs(job, 0)
            if not verify_batch(keys.verifying, read_proofs(proof, 1), [public]):
                raise ProofError(f"{self.benchmark.name}: the proof of partition 0 does not hold")

    def _whole(self, session: Session, keys: Keys) -> Figures:
        """From the job's file to verified bytes."""
        first = len(self.setting.run.spans)
        start = time.perf_counter()
        job = self._load(session)
        result = api.prove(session, job, keys, [FIXED] * job.n_partitions)
        seconds = time.perf_counter() - start
        part = since(self.setting.run.record(), first, PARTITION)
        same = self.proof is None or result.proof.startswith(self.proof)
        return {
            "partitions": result.partitions,
            "proof_bytes": len(result.proof),
            "proof_sha256": hashlib.sha256(result.proof).hexdigest(),
            "right": same,
            "same_bytes": same,
            **times_of([part]),
            **memory_of(part, session.plan.stage_bytes),
            **held_against(seconds, self.benchmark.whole or Target()),
        }

    def _repeated(self, session: Session, job: Job, keys: Keys) -> Figures:
        """All partitions again and again: how memory of host and device grows."""
        rss: list[float] = []
        device: list[float] = []
        allocated: list[float] = []
        for k in range(self.benchmark.repeats):
            api.prove(session, job, keys, [FIXED] * job.n_partitions)
            rss.append(self.setting.run.samples[-1].rss)
            if session.device.type == "cuda":
                device.append(torch.cuda.memory_reserved(session.device))
                allocated.append(torch.cuda.memory_allocated(session.device))
            self.setting.timeline.advance((k + 1) / self.benchmark.repeats)
        return {
            "rss_bytes": rss,
            "device_bytes": device,
            "allocated_bytes": allocated,
            "rss_slope": slope(rss),
            "device_slope": slope(device) if device else None,
            "allocated_slope": slope(allocated) if allocated else None,
        }


def free(device: torch.device) -> None:
    """Give back what nobody holds any more: to the device, not only to torch."""
    gc.collect()
    synchronize(device)
    if device.type == "cuda":
        torch.cuda.empty_cache()
