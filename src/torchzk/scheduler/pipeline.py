"""One job from checked input to verified bytes, partition by partition."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from torchzk.circuits.jobs import PostJob
from torchzk.circuits.slots import public_inputs, slots_of
from torchzk.circuits.vanilla_checks import check_sectors
from torchzk.errors import InputError, ProofError
from torchzk.groth16.keys import Proof, VerifyingKey, read_proofs
from torchzk.groth16.prover import Randomisers, prove
from torchzk.groth16.verifier import verify_batch
from torchzk.scheduler.key_store import Keys
from torchzk.scheduler.memory_need import check_memory, free_memory, msm_room, proving_need
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


def check_job(session: Session, job: PostJob) -> None:
    """Verify the vanilla proofs of a job; raises `InputError` for the first that fails."""
    with session.timeline.span("check input"):
        check_sectors(session.backend, session.device, job)


def prove_job(
    session: Session, job: PostJob, keys: Keys, randomisers: Sequence[Randomisers] | None = None
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
    n = job.n_partitions
    chosen = randomisers or [Randomisers.draw() for _ in range(n)]
    if len(chosen) != n:
        raise InputError(f"the job has {n} partitions, {len(chosen)} pairs of r and s are given")
    check_memory(session, proving_need(session.circuit.r1cs()), "proving a partition")
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
    session: Session, job: PostJob, keys: Keys, index: int, randomisers: Randomisers
) -> Proof:
    circuit = session.circuit
    timeline = session.timeline.on_lane(f"partition {index}")
    with timeline.span("witness"):
        slots = slots_of(session.backend, session.device, job, index)
        assignment = circuit.assignment(session.backend, slots)
    r1cs, free = circuit.r1cs(), free_memory(session.device)
    return prove(
        session.backend,
        keys.proving,
        r1cs,
        assignment,
        randomisers,
        timeline,
        circuit=circuit.name,
        room=msm_room(session.device, session.choice.name, r1cs, free, key_is_there=keys.stays),
    )


def verify_job(session: Session, job: PostJob, raw: bytes, key: VerifyingKey) -> None:
    """Raise `ProofError` unless `raw` proves every partition of the job.

    Re-reads the bytes with all their checks, so what is verified is what a verifier would see.
    """
    with session.timeline.span("verify"):
        proofs = read_proofs(raw, job.n_partitions)
        inputs = [public_inputs(job, index) for index in range(job.n_partitions)]
        if not verify_batch(key, proofs, inputs):
            raise ProofError(
                f"the proof does not hold for this job under this key ({session.circuit.name}, "
                f"{job.n_partitions} partitions)"
            )
