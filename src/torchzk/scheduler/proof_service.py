"""Services that prove jobs of circuits: the one way to a proof, of one job as of many."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType

from torchzk.circuits.circuit import Job as CircuitJob
from torchzk.circuits.circuit import Source
from torchzk.errors import ConfigError
from torchzk.groth16.prover import Randomisers
from torchzk.scheduler.memory_budget import MemoryBudget
from torchzk.scheduler.policies import POLICIES
from torchzk.scheduler.proof_work import ProofWork, Site, UnreadWork
from torchzk.scheduler.residents import Share, partition_room
from torchzk.scheduler.service import DeviceSetup, Limits, Service
from torchzk.scheduler.work import Job, Priority
from torchzk.scheduler.worker_device import WORKERS, CpuDevice, CudaDevice

PRIORITIES: Mapping[str, Priority] = {"winning": Priority.WINNING, "window": Priority.WINDOW}
"""Of kinds of proofs that have less time than others."""

Choose = Callable[[CircuitJob], Sequence[Randomisers]]
"""r and s of each of a job's partitions."""


@dataclass(frozen=True)
class ProofResult:
    """A proof that has been verified under the key it was made with."""

    proof: bytes
    """192 bytes a partition, in partition order."""
    partitions: int
    seconds: float
    """From when all jobs were handed in to its end, where there are several."""
    insecure_key: bool
    zero_knowledge: bool
    """False where the caller gave r and s, which then somebody knows."""


class ProofService:
    """Proves jobs on the devices of its sites, partitions of several jobs at once.

    Use it in a `with`: its end waits for all jobs, or cancels them where the body failed.
    """

    def __init__(
        self, sites: Sequence[Site], *, guest: bool = False, limits: Limits | None = None
    ) -> None:
        """Workers and policy are those of the first site's config.

        Args:
            sites: Of any circuits and devices, one for each pair; keys stay the caller's.
            guest: Whether the caller will be one of the first device's workers, by `work`.
            limits: How many jobs are where at most.

        Raises:
            ConfigError: There is no site, or some on one device do not know of each other's keys.
            ResourceError: A device has not the memory to prove a partition, or not for all sites.
        """
        if not sites:
            raise ConfigError("a service needs a site at least: a session and its keys")
        self._by_circuit: dict[str, dict[str, Site]] = {}
        for site in sites:
            self._by_circuit.setdefault(site.session.circuit.name, {})[site.device] = site
        config = sites[0].session.config
        self._home = sites[0].device
        devices = [
            _setup(
                [site for site in sites if site.device == name],
                config.workers,
                guest and name == self._home,
            )
            for name in dict.fromkeys(site.device for site in sites)
        ]
        timeline = sites[0].session.timeline.backstage
        self._service = Service(devices, POLICIES[config.policy], timeline, limits)

    @property
    def service(self) -> Service:
        """The queues and workers below."""
        return self._service

    def __enter__(self) -> ProofService:
        self._service.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._service.__exit__(kind, error, trace)

    def submit(
        self,
        job: CircuitJob,
        randomisers: Sequence[Randomisers] | None = None,
        *,
        name: str = "",
        priority: Priority | None = None,
        seconds: float | None = None,
        patience: float = 0.0,
    ) -> Job:
        """Hand in a job that was read and checked; its result is the verified proof.

        Args:
            randomisers: As `prove_job`.
            name: What errors and lanes call it.
            priority: By default that of its kind.
            seconds: Until its deadline.
            patience: Seconds to wait for a place.

        Raises:
            QueueFullError, DeviceLostError, ProtocolError: As `Service.submit`.
        """
        sites = self._sites(job)
        work = ProofWork(sites, job, randomisers, name)
        return self._submit(work, sites, name, priority, seconds, patience)

    def submit_source(
        self,
        source: Source,
        randomisers: Choose | None = None,
        *,
        circuit: str | None = None,
        name: str = "",
        miner_id: int | None = None,
        sector_number: int | None = None,
        priority: Priority | None = None,
        seconds: float | None = None,
        patience: float = 0.0,
        on_end: Callable[[Job], None] | None = None,
    ) -> Job:
        """Hand in a job that is still to be read and checked, beside the proofs of others.

        Args:
            circuit: Its circuit's name; by default that of the first site.
            on_end: As `Service.submit`.

        Raises:
            ConfigError: That circuit has no site. And as `submit`; what is wrong with the input
                becomes the job's error.
        """
        sites = self._by_circuit.get(circuit or next(iter(self._by_circuit)))
        if sites is None:
            known = ", ".join(self._by_circuit)
            raise ConfigError(f"{name}: circuit {circuit} has no site here, those are: {known}")
        work = UnreadWork(
            sites, source, randomisers, name, miner_id=miner_id, sector_number=sector_number
        )
        return self._submit(work, sites, name, priority, seconds, patience, on_end)

    def work(self, job: Job) -> None:
        """Be the first device's last worker until the job ends; see `Service.work`."""
        self._service.work(job, self._home)
        # where that device was set aside, others go on
        job.wait()

    def _sites(self, job: CircuitJob) -> dict[str, Site]:
        """Those of the job's circuit, or the first ones, which refuse it in their check."""
        for sites in self._by_circuit.values():
            circuit = next(iter(sites.values())).session.circuit
            if (circuit.kind, circuit.sector_size) == (job.kind, job.sector_size):
                return sites
        return next(iter(self._by_circuit.values()))

    def _submit(
        self,
        work: ProofWork,
        sites: Mapping[str, Site],
        name: str,
        priority: Priority | None,
        seconds: float | None,
        patience: float,
        on_end: Callable[[Job], None] | None = None,
    ) -> Job:
        circuit = next(iter(sites.values())).session.circuit
        if priority is None:
            priority = PRIORITIES.get(circuit.kind, Priority.REST)
        called = name or f"the job of {circuit.name}"
        return self._service.submit(
            called, work, priority, seconds=seconds, patience=patience, on_end=on_end
        )


def prove_job(
    sites: Sequence[Site], job: CircuitJob, randomisers: Sequence[Randomisers] | None = None
) -> ProofResult:
    """Prove every partition of a job and verify the proofs.

    The calling thread is one of the workers, so a signal ends what it is at.

    Args:
        sites: Where it may be proved.
        job: A job whose vanilla proofs were checked (`pipeline.check_job`).
        randomisers: r and s a partition, to repeat a proof; drawn from the system by default.

    Raises:
        InputError: Not as many randomisers as partitions, or a job of another circuit.
        ResourceError: There is not the memory to prove a partition, or a device failed.
        ProofError: The proof does not verify, so it is not returned.
    """
    start = time.perf_counter()
    with ProofService(sites, guest=True) as service:
        submitted = service.submit(job, randomisers)
        service.work(submitted)
        raw = submitted.result()
    return ProofResult(
        proof=raw,
        partitions=job.n_partitions,
        seconds=time.perf_counter() - start,
        insecure_key=sites[0].keys.insecure,
        zero_knowledge=randomisers is None,
    )


@dataclass(frozen=True)
class Outcome:
    """How one of several jobs ended: with a result, or with an error."""

    name: str
    result: ProofResult | None
    error: BaseException | None


def prove_many(
    sites: Sequence[Site],
    sources: Mapping[str, Source],
    randomisers: Choose | None = None,
    *,
    miner_id: int | None = None,
    sector_number: int | None = None,
) -> Iterator[Outcome]:
    """Read, check and prove several jobs of one circuit; what one ends with is no other's matter.

    Args:
        sites: Where they may be proved.
        sources: By name.
        randomisers: r and s of each partition of a job; drawn from the system by default.
        miner_id: As `pipeline.read_job`.
        sector_number: The same.

    Yields:
        Outcomes in the order of the sources, each as soon as it is there.

    Raises:
        ResourceError: There is not the memory to prove a partition.
    """
    limits = Limits(submitted=max(1, len(sources)))
    with ProofService(sites, guest=True, limits=limits) as service:
        start, ends = time.perf_counter(), dict[Job, float]()

        def on_end(job: Job) -> None:
            ends[job] = time.perf_counter()

        jobs = [
            service.submit_source(
                source,
                randomisers,
                name=name,
                miner_id=miner_id,
                sector_number=sector_number,
                on_end=on_end,
            )
            for name, source in sources.items()
        ]
        for job in jobs:
            service.work(job)
            yield _outcome(
                job, sites[0], ends.get(job, time.perf_counter()) - start, randomisers is None
            )


def _outcome(job: Job, site: Site, seconds: float, zero_knowledge: bool) -> Outcome:
    if job.error is not None:
        if not isinstance(job.error, Exception):
            # a signal: it is nobody's outcome
            raise job.error
        return Outcome(job.name, None, job.error)
    result = ProofResult(
        proof=job.result(),
        partitions=job.n_partitions,
        seconds=seconds,
        insecure_key=site.keys.insecure,
        zero_knowledge=zero_knowledge,
    )
    return Outcome(job.name, result, None)


def _setup(sites: Sequence[Site], workers: int | None, guest: bool) -> DeviceSetup:
    """A device with the sites on it.

    Its budget for partitions is `partition_room`, and follows keys that come and go. Compute peaks
    are not promised, for there is one at a time. What checks of other jobs take meanwhile, some
    tens of megabytes, is had of what every plan keeps back.
    """
    session = sites[0].session
    device = session.device
    for site in sites:
        if site.session.residents is not session.residents:
            names = f"{session.circuit.name} and {site.session.circuit.name}"
            raise ConfigError(
                f"{device}: the sessions of {names} do not know of each other's keys there, and "
                "plan as if alone; open one beside the other (api.open_session, beside=)"
            )
    shares = [Share(site.plan(), site.session.beside, site.staged_bytes) for site in sites]
    budget = MemoryBudget(str(device), partition_room(str(device), shares))
    session.residents.watch(device, budget)
    n_workers = workers or WORKERS[device.type]
    return DeviceSetup(
        CudaDevice(device) if device.type == "cuda" else CpuDevice(),
        budget,
        n_workers - 1 if guest else n_workers,
    )
