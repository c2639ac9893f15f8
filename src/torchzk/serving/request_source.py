"""Requests as the sources that circuits read: what a client sends is a job file in other words.

Source: the wire contract of cuzk.v1; job files as in spec/interface.md.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass

from torchzk.circuits.circuit import Job, Source
from torchzk.circuits.porep_job import PorepJob
from torchzk.errors import InputError
from torchzk.serving.circuit_ids import circuit_word
from torchzk.serving.engine import ProofKind, ProofRequest


@dataclass(frozen=True)
class RequestSource:
    """What `Circuit.read_job` is given."""

    source: Source
    miner_id: int | None = None
    sector_number: int | None = None


def source_of(request: ProofRequest) -> RequestSource:
    """The job that a request is, unread."""
    if request.kind is ProofKind.POREP:
        # nobody has miner 0, so nobody was said: a message cannot tell them apart
        said = request.miner_id != 0
        return RequestSource(
            request.vanilla_proofs[0],
            request.miner_id if said else None,
            request.sector_number if said else None,
        )
    fields: dict[str, object] = {
        "kind": circuit_word(request.kind),
        "sector_size": request.sector_size,
        "miner_id": request.miner_id,
        "vanilla_proofs": [base64.b64encode(p).decode() for p in request.vanilla_proofs],
    }
    if request.registered_proof is not None:
        fields["registered_proof"] = request.registered_proof
    if request.kind is ProofKind.UPDATE:
        for name in ("comm_r_old", "comm_r_new", "comm_d_new"):
            fields[name] = getattr(request, name).hex()
        fields["sector_number"] = request.sector_number
        return RequestSource(fields)
    # the chain's randomness becomes a field element so, for provers as for verifiers
    masked = (*request.randomness[:31], request.randomness[31] & 0x3F)
    fields["randomness"] = bytes(masked).hex()
    if request.kind is ProofKind.WINDOW:
        fields["partition_index"] = request.partition_index
    elif request.sector_number:
        fields["sector_number"] = request.sector_number
    return RequestSource(fields)


def check_agrees(request: ProofRequest, job: Job) -> None:
    """Raise `InputError` where a job, once it is read, is not of the type that was asked for."""
    if not isinstance(job, PorepJob) or request.registered_proof is None:
        return
    if job.registered.number != request.registered_proof:
        raise InputError(
            f"registered_proof: {request.registered_proof} was asked for, the C1 output is"
            f" {job.registered.number} ({job.registered.name})"
        )
