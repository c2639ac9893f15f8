"""What an engine says, as messages for clients."""

from __future__ import annotations

from torchzk.serving.circuit_ids import cuzk_id
from torchzk.serving.engine import (
    Accepted,
    DeviceReport,
    EngineStatus,
    Evicted,
    JobReport,
    JobState,
    KeyReport,
    Preloaded,
    ProofKind,
)
from torchzk.serving.wire import proving_pb2 as wire

Result = wire.AwaitProofResponse

STATUSES = {
    JobState.QUEUED: Result.TIMEOUT,
    JobState.RUNNING: Result.TIMEOUT,
    JobState.COMPLETED: Result.COMPLETED,
    JobState.FAILED: Result.FAILED,
    JobState.CANCELLED: Result.CANCELLED,
    # not TIMEOUT: there is nothing left to wait for
    JobState.EXPIRED: Result.FAILED,
}
_TIERS = {
    "device": wire.SRSStatus.HOT,
    "pinned": wire.SRSStatus.HOT,
    "mapped": wire.SRSStatus.WARM,
}
_U32 = (1 << 32) - 1


def accepted(said: Accepted) -> wire.SubmitProofResponse:
    """The answer to `SubmitProof`."""
    position = min(said.queue_position, _U32)
    return wire.SubmitProofResponse(job_id=said.job_id, queue_position=position, joined=said.joined)


def result(job: JobReport) -> Result:
    """A job at its end, or where it is when the time to wait for it is over."""
    message = job.error_message
    if not job.state.ended:
        message = f"the job is {job.state.value} and goes on; wait for it again"
    return Result(
        job_id=job.job_id,
        status=STATUSES[job.state],
        proof=job.proof,
        error_message=message,
        queue_wait_ms=_ms(job.seconds.queue_wait),
        srs_load_ms=_ms(job.seconds.key_load),
        synthesis_ms=_ms(job.seconds.synthesis),
        gpu_compute_ms=_ms(job.seconds.device),
        total_ms=_ms(job.seconds.total),
        error_type=job.error_type,
    )


def status(said: EngineStatus) -> wire.GetStatusResponse:
    """The answer to `GetStatus`."""
    return wire.GetStatusResponse(
        gpus=[_device(device) for device in said.devices],
        loaded_srs=[_key(key) for key in said.keys],
        queues=[
            wire.QueueStatus(
                proof_kind=kind.value,
                pending=said.pending.get(kind, 0),
                in_progress=said.running.get(kind, 0),
            )
            for kind in ProofKind
        ],
        total_proofs_completed=said.completed,
        total_proofs_failed=said.failed,
        uptime_seconds=int(said.uptime_seconds),
        pinned_memory_bytes=said.pinned_bytes,
        pinned_memory_limit_bytes=said.pinned_limit_bytes,
    )


def preloaded(said: Preloaded) -> wire.PreloadSrsResponse:
    """The answer to `PreloadSRS`."""
    return wire.PreloadSrsResponse(
        already_loaded=said.already_loaded, load_time_ms=_ms(said.seconds)
    )


def evicted(said: Evicted) -> wire.EvictSrsResponse:
    """The answer to `EvictSRS`."""
    return wire.EvictSrsResponse(was_loaded=said.was_loaded, freed_bytes=said.freed_bytes)


def _device(said: DeviceReport) -> wire.GPUStatus:
    return wire.GPUStatus(
        ordinal=said.ordinal,
        name=said.name,
        vram_total_bytes=said.vram_total_bytes,
        vram_free_bytes=said.vram_free_bytes,
        current_job_id=said.job_id,
        current_proof_kind=said.kind.value if said.kind else "",
        set_aside=said.set_aside,
    )


def _key(said: KeyReport) -> wire.SRSStatus:
    return wire.SRSStatus(
        circuit_id=cuzk_id(said.circuit_id),
        tier=_TIERS[said.place],
        size_bytes=said.size_bytes,
        ref_count=said.users,
    )


def _ms(seconds: float) -> int:
    return max(0, round(seconds * 1000))
