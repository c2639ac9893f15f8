"""Proofs as the scheduler's work: jobs of any circuit, whose partitions any of its sites proves.

What a partition has on a device between staging and kernels is what its witness is made from, some
megabytes. Kernels run on the device's one compute stream, and leave query sums on the host; what
is left to do with those hides behind the kernels of others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial

import torch

from torchzk.circuits.circuit import Job, Source
from torchzk.errors import InputError, ProofError, ProtocolError
from torchzk.groth16.prover import Randomisers, combine, query_sums
from torchzk.groth16.streams import Mark
from torchzk.params.curves import Point
from torchzk.scheduler.key_store import Keys, get_keys
from torchzk.scheduler.pipeline import check_job, check_kind, read_job, verify_job
from torchzk.scheduler.plan import Plan
from torchzk.scheduler.replan import memory_counted, with_replan
from torchzk.scheduler.session import Session
from torchzk.scheduler.worker_device import Device, compute_stream
from torchzk.timeline import Timeline


@dataclass(frozen=True)
class Site:
    """Where partitions of a circuit are proved: a session on a device, and the circuit's key."""

    session: Session
    keys: Keys

    def __post_init__(self) -> None:
        """Wait for what the calling thread has launched: others' streams may read the key then."""
        Mark.here(self.session.device).wait()

    @property
    def device(self) -> str:
        """The device's name."""
        return str(self.session.device)

    @property
    def staged_bytes(self) -> int:
        """What a partition has on the device between its staging and its kernels."""
        return self.session.sizes.witness.given

    def plan(self) -> Plan:
        """The session's plan with the key where it is.

        Raises:
            ResourceError: There is not the memory to prove a partition.
        """
        return self.session.plan_for(key_stays=self.keys.stays)


@contextmanager
def open_sites(sessions: Sequence[Session]) -> Iterator[list[Site]]:
    """The keys of a circuit for sessions on several devices, until the context ends.

    Every device has points of its own where they stay on one. From the host all read the same.

    Raises:
        As `get_keys`.
    """
    first = sessions[0]
    with ExitStack() as stack:
        keys = stack.enter_context(get_keys(first))
        sites = [Site(first, keys)]
        for session in sessions[1:]:
            session.take_constraints(first)
            with torch.cuda.device(session.device):
                if keys.stays:
                    own = stack.enter_context(get_keys(session))
                else:
                    own = keys
                    stack.enter_context(session.residents.hold(session, "host"))
                sites.append(Site(session, own))
        yield sites


class ProofPartition:
    """One partition on its way to 192 bytes; a `PartitionWork`."""

    def __init__(
        self, site: Site, job: Job, index: int, randomisers: Randomisers, timeline: Timeline
    ) -> None:
        """Args: timeline: Gets the prover's stages as spans."""
        self._site, self._job, self._index = site, job, index
        self._randomisers, self._timeline = randomisers, timeline
        self._given: object | None = None
        self._staged: Mark | None = None
        self._sums: dict[str, Point] | None = None

    @property
    def planned_bytes(self) -> int:
        """What lies there after `stage`; `compute` is planned for once a device."""
        return self._site.staged_bytes

    def prepare(self) -> None:
        """Nothing: what the host does by itself was done when the job was read."""

    def stage(self) -> None:
        """Start moving what the witness is made from, by the worker's own stream."""
        session = self._site.session
        given = (session.backend, session.device, self._job, self._index)
        with memory_counted(session, "staging a partition"):
            self._given = session.circuit.witness(*given)
        self._staged = Mark.here(session.device)

    def compute(self, check: Callable[[], None]) -> None:
        """All kernels; as `query_sums`, and errors as `with_replan`."""
        if self._staged is None:
            raise ProtocolError(f"partition {self._index} is computed before it is staged")
        session = self._site.session
        at_work = session.residents.computing(session.device)
        with at_work, _current(compute_stream(session.device)):
            self._staged.hold(session.device)
            self._site.plan()
            try:
                self._sums = with_replan(session, partial(self._query_sums, check))
            finally:
                # what was staged is another stream's memory, and may be given away after this
                Mark.here(session.device).wait()

    def drop(self) -> None:
        self._given = None

    def finish(self) -> bytes:
        """The proof, by the host alone."""
        if self._sums is None:
            raise ProtocolError(f"partition {self._index} is finished before it is computed")
        vk = self._site.keys.verifying
        return combine(vk, self._sums, self._randomisers, self._timeline).to_bytes()

    @property
    def sums(self) -> Mapping[str, Point]:
        """The query sums once they are there, which tell what is wrong with a bad proof."""
        return self._sums or {}

    def _query_sums(self, check: Callable[[], None], plan: Plan) -> dict[str, Point]:
        session = self._site.session
        with session.witness_program(plan) as program:
            return query_sums(
                session.backend,
                self._site.keys.proving,
                session.r1cs,
                lambda: program(self._given),
                self._timeline,
                circuit=session.circuit.name,
                room=plan.room,
                check=check,
            )


class ProofWork:
    """A job whose vanilla proofs were checked; a `JobWork`.

    Args:
        sites: Where its partitions may be proved, by device; all of the job's circuit.
        job: What to prove.
        randomisers: r and s a partition, to repeat a proof; drawn from the system by default.
        name: Put before the names of its lanes, where there are several jobs.
    """

    def __init__(
        self,
        sites: Mapping[str, Site],
        job: Job | None,
        randomisers: Sequence[Randomisers] | None = None,
        name: str = "",
    ) -> None:
        self._sites, self._name = sites, name
        self._session = next(iter(sites.values())).session
        self._job, self._given = job, randomisers
        self._randomisers: Sequence[Randomisers] = ()

    @property
    def job(self) -> Job:
        """What is proved, once it was read."""
        if self._job is None:
            raise ProtocolError(f"{self._name} is asked for its job before it was read")
        return self._job

    @property
    def n_partitions(self) -> int:
        return self.job.n_partitions

    def read(self) -> None:
        """Nothing: it is there."""

    def check(self) -> None:
        """Choose r and s.

        Raises:
            InputError: It is for another circuit, or those given are too few or too many.
        """
        check_kind(self._session, self.job)
        n = self.job.n_partitions
        given = self._given
        self._randomisers = [Randomisers.draw() for _ in range(n)] if given is None else given
        if len(self._randomisers) != n:
            raise InputError(
                f"the job has {n} partitions, {len(self._randomisers)} pairs of r and s are given"
            )

    def partition(self, index: int, device: Device, timeline: Timeline) -> ProofPartition:
        site = self._sites[device.name]
        lane = f"{self._name} partition {index}".strip()
        stages = site.session.timeline.on_lane(lane)
        return ProofPartition(site, self.job, index, self._randomisers[index], stages)

    def finish(self, pieces: Sequence[bytes]) -> bytes:
        """The proof; raises `ProofError` where something computed wrongly."""
        raw = b"".join(pieces)
        site = next(iter(self._sites.values()))
        try:
            verify_job(site.session, self.job, raw, site.keys.verifying, lane=self._lane)
        except ProofError as e:
            raise ProofError(
                f"{e}; it was computed here, so memory or a device may be faulty, and nothing of "
                "it is kept: try again, let torchzk.diagnose name what computes wrongly, and "
                "torchzk.doctor --memory-test 60 look at GPUs"
            ) from e
        return raw

    @property
    def _lane(self) -> str:
        return self._name or self._session.timeline.lane


class UnreadWork(ProofWork):
    """A job that is still a file; read and checked beside the proofs of others."""

    def __init__(
        self,
        sites: Mapping[str, Site],
        source: Source,
        randomisers: Callable[[Job], Sequence[Randomisers]] | None = None,
        name: str = "",
        *,
        miner_id: int | None = None,
        sector_number: int | None = None,
    ) -> None:
        """Args: randomisers: Of the job, once it was read; and as `read_job` and `ProofWork`."""
        super().__init__(sites, None, None, name)
        self._source, self._choose = source, randomisers
        self._miner_id, self._sector_number = miner_id, sector_number

    def read(self) -> None:
        """As `read_job`."""
        ids = (self._miner_id, self._sector_number)
        self._job = read_job(self._session, self._source, *ids, lane=self._lane)
        if self._choose is not None:
            self._given = self._choose(self._job)

    def check(self) -> None:
        """As `check_job`, and as before."""
        check_job(self._session, self.job, lane=self._lane)
        super().check()


def prove_partition(site: Site, job: Job, index: int, randomisers: Randomisers) -> bytes:
    """One partition in the calling thread, with no locks: to see what it takes alone."""
    timeline = site.session.timeline.on_lane(f"partition {index}")
    work = ProofPartition(site, job, index, randomisers, timeline)
    try:
        work.prepare()
        work.stage()
        work.compute(lambda: None)
    finally:
        work.drop()
    return work.finish()


def _current(stream: torch.cuda.Stream | None) -> AbstractContextManager[object]:
    return nullcontext() if stream is None else torch.cuda.stream(stream)
