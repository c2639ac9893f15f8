"""What is done to a job as a whole: it is read, checked, and its proofs are verified."""

from __future__ import annotations

from torchzk.circuits.circuit import Job, Source
from torchzk.errors import InputError, ProofError
from torchzk.groth16.keys import VerifyingKey
from torchzk.groth16.proofs import read_proofs
from torchzk.groth16.verifier import verify_batch
from torchzk.scheduler.replan import memory_counted
from torchzk.scheduler.session import Session
from torchzk.timeline import Timeline


def read_job(
    session: Session,
    source: Source,
    miner_id: int | None,
    sector_number: int | None,
    lane: str | None = None,
) -> Job:
    """Read a job for the session's circuit; raises `InputError` as `Circuit.read_job` does.

    Args:
        lane: Where its span is drawn, by default where the session's are.
    """
    with _timeline(session, lane).span("read input"):
        job: Job = session.circuit.read_job(source, miner_id=miner_id, sector_number=sector_number)
        return job


def check_job(session: Session, job: Job, lane: str | None = None) -> None:
    """Verify the vanilla proofs of a job; raises `InputError` for the first that fails.

    Args:
        lane: As `read_job`.
    """
    check_kind(session, job)
    timeline = _timeline(session, lane)
    with memory_counted(session, "checking a job"), timeline.span("check input"):
        session.circuit.check_job(session.backend, session.device, job)


def verify_job(
    session: Session, job: Job, raw: bytes, key: VerifyingKey, lane: str | None = None
) -> None:
    """Raise `ProofError` unless `raw` proves every partition of the job.

    Re-reads the bytes with all their checks, so what is verified is what a verifier would see.

    Args:
        lane: As `read_job`.
    """
    check_kind(session, job)
    with _timeline(session, lane).span("verify"):
        proofs = read_proofs(raw, job.n_partitions)
        inputs = [session.circuit.public_inputs(job, k) for k in range(job.n_partitions)]
        if not verify_batch(key, proofs, inputs):
            raise ProofError(
                f"the proof does not hold for this job under this key ({session.circuit.name}, "
                f"{job.n_partitions} partition{'s' if job.n_partitions > 1 else ''})"
            )


def check_kind(session: Session, job: Job) -> None:
    """Raise `InputError` unless the job is for the session's circuit."""
    circuit = session.circuit
    if (job.kind, job.sector_size) != (circuit.kind, circuit.sector_size):
        raise InputError(
            f"the job is for {job.kind} of {job.sector_size} byte sectors,"
            f" the session's circuit is {circuit.name}"
        )


def _timeline(session: Session, lane: str | None) -> Timeline:
    return session.timeline if lane is None else session.timeline.on_lane(lane)
