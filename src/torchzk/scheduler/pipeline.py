"""One job from checked input to verified bytes, partition by partition."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from torchzk.circuits.circuit import Job, Source
from torchzk.errors import InputError, ProofError
from torchzk.groth16.keys import Proof, VerifyingKey, read_proofs
from torchzk.groth16.prover import Randomisers, prove
from torchzk.groth16.r1cs import Assignment
from torchzk.groth16.verifier import verify_batch
from torchzk.scheduler.key_store import Keys
from torchzk.scheduler.plan import Plan
from torchzk.scheduler.replan import memory_counted, with_replan
from torchzk.scheduler.session import Session


@dataclass(frozen=True)
class ProofResult:
    """A proof that has been verified under the key it was made with."""

    proof: bytes
    """192 bytes a partition, in partition order."""
    partitions: int
    seconds: float
    insecure_key: bool
    zero_knowledge: bool
    """False where the caller gave r and s, which then somebody knows."""


def read_job(
    session: Session, source: Source, miner_id: int | None, sector_number: int | None
) -> Job:
    """Read a job for the session's circuit; raises `InputError` as `Circuit.read_job` does."""
    with session.timeline.span("read input"):
        job: Job = session.circuit.read_job(source, miner_id=miner_id, sector_number=sector_number)
        return job


def check_job(session: Session, job: Job) -> None:
    """Verify the vanilla proofs of a job; raises `InputError` for the first that fails."""
    _check_kind(session, job)
    with memory_counted(session, "checking a job"), session.timeline.span("check input"):
        session.circuit.check_job(session.backend, session.device, job)


def prove_job(
    session: Session, job: Job, keys: Keys, randomisers: Sequence[Randomisers] | None = None
) -> ProofResult:
    """Prove every partition of a job and verify the proofs.

    Args:
        session: Circuit, backend and device.
        job: A job whose vanilla proofs were checked (`check_job`).
        keys: Keys of the circuit.
        randomisers: r and s a partition, to repeat a proof; drawn from the system by default.

    Raises:
        InputError: Not as many randomisers as partitions.
        ResourceError: There is not the memory to prove a partition.
        ProofError: The proof does not verify, so it is not returned.
    """
    start = time.perf_counter()
    _check_kind(session, job)
    n = job.n_partitions
    chosen = randomisers or [Randomisers.draw() for _ in range(n)]
    if len(chosen) != n:
        raise InputError(f"the job has {n} partitions, {len(chosen)} pairs of r and s are given")
    # refused before anything is computed
    session.plan_for(key_stays=keys.stays)
    raw = b"".join(
        _prove_partition(session, job, keys, index, z).to_bytes() for index, z in enumerate(chosen)
    )
    verify_job(session, job, raw, keys.verifying)
    return ProofResult(
        proof=raw,
        partitions=n,
        seconds=time.perf_counter() - start,
        insecure_key=keys.insecure,
        zero_knowledge=randomisers is None,
    )


def _prove_partition(
    session: Session, job: Job, keys: Keys, index: int, randomisers: Randomisers
) -> Proof:
    circuit = session.circuit
    timeline = session.timeline.on_lane(f"partition {index}")
    session.plan_for(key_stays=keys.stays)

    def run(plan: Plan) -> Proof:
        def make() -> object:
            return circuit.witness(session.backend, session.device, job, index)

        # kept where it is wanted again
        witness = cache(make) if plan.room.in_turn else make

        def assign() -> Assignment:
            return circuit.assignment(session.backend, witness())

        return prove(
            session.backend,
            keys.proving,
            session.r1cs,
            assign,
            randomisers,
            timeline,
            circuit=circuit.name,
            room=plan.room,
        )

    return with_replan(session, run)


def verify_job(session: Session, job: Job, raw: bytes, key: VerifyingKey) -> None:
    """Raise `ProofError` unless `raw` proves every partition of the job.

    Re-reads the bytes with all their checks, so what is verified is what a verifier would see.
    """
    _check_kind(session, job)
    with session.timeline.span("verify"):
        proofs = read_proofs(raw, job.n_partitions)
        inputs = [session.circuit.public_inputs(job, k) for k in range(job.n_partitions)]
        if not verify_batch(key, proofs, inputs):
            raise ProofError(
                f"the proof does not hold for this job under this key ({session.circuit.name}, "
                f"{job.n_partitions} partitions)"
            )


def _check_kind(session: Session, job: Job) -> None:
    circuit = session.circuit
    if (job.kind, job.sector_size) != (circuit.kind, circuit.sector_size):
        raise InputError(
            f"the job is for {job.kind} of {job.sector_size} byte sectors,"
            f" the session's circuit is {circuit.name}"
        )
