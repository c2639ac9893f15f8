"""The Python API: load a job, get keys, prove, verify.

    from torchzk import api

    session = api.open_session(api.load_config("window2k.yaml"))
    job = api.load_job(session, "configs/inputs/window2k.json")
    api.check(session, job)
    with api.get_keys(session) as keys:
        proof = api.prove(session, job, keys).proof

Every function raises the errors of `torchzk.errors`. The commands are thin over this module.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from pathlib import Path

from torchzk.circuits.circuit import Job
from torchzk.circuits.randomness_file import load_randomisers as _load_randomisers
from torchzk.config import Config, load_config
from torchzk.groth16.keys import VerifyingKey
from torchzk.groth16.prover import Randomisers
from torchzk.groth16.toxic_waste import DEV, load_toxic_waste
from torchzk.groth16.vk_file import key_sha256
from torchzk.scheduler import pipeline
from torchzk.scheduler.dev_keys import make_dev_keys
from torchzk.scheduler.key_files import check_official
from torchzk.scheduler.key_store import Keys, get_keys, get_verifying_key, is_insecure
from torchzk.scheduler.proof_service import (
    Outcome,
    ProofResult,
    ProofService,
    prove_job,
    prove_many,
)
from torchzk.scheduler.proof_work import Site, open_sites
from torchzk.scheduler.session import Session
from torchzk.scheduler.session import open_session as _open_session
from torchzk.scheduler.session import open_sessions as _open_sessions
from torchzk.scheduler.synthetic_input import MINER_ID, SECTOR_NUMBER, synthetic_job
from torchzk.timeline import Timeline

__all__ = [
    "Config",
    "Job",
    "Keys",
    "Outcome",
    "ProofResult",
    "ProofService",
    "Randomisers",
    "Session",
    "Site",
    "VerifyingKey",
    "check",
    "foresee",
    "get_keys",
    "get_verifying_key",
    "is_insecure",
    "key_sha256",
    "load_config",
    "load_job",
    "load_randomisers",
    "notes",
    "open_session",
    "open_sessions",
    "open_sites",
    "prove",
    "prove_job",
    "prove_many",
    "verify",
    "write_dev_keys",
]


def open_session(
    config: Config,
    timeline: Timeline | None = None,
    warn: Callable[[str], None] = warnings.warn,
    *,
    beside: Session | None = None,
) -> Session:
    """Find the circuit, the device and the backend that a config names.

    Args:
        config: From `load_config`.
        timeline: Gets a span a stage; nobody watches by default.
        warn: Told of a damaged cache, which is mended.
        beside: Another session of this process. Where both have keys on one device, each is
            planned in what the other leaves; sessions opened without it plan as if alone.
    """
    residents = None if beside is None else beside.residents
    return _open_session(config, timeline or Timeline(), warn, residents)


def open_sessions(
    config: Config,
    timeline: Timeline | None = None,
    warn: Callable[[str], None] = warnings.warn,
    *,
    beside: Session | None = None,
) -> list[Session]:
    """A session on each of the devices that a config names; as `open_session`."""
    residents = None if beside is None else beside.residents
    return _open_sessions(config, timeline or Timeline(), warn, residents)


def foresee(session: Session) -> None:
    """Raise what proving would for want of a key or of memory, before a job is read and checked.

    As far as that is known: what a circuit takes, once its constraints were recorded.

    Raises:
        KeyFileError: The network's key is wanted, and not there.
        ResourceError: The device has not the memory, with the numbers.
    """
    check_official(session)
    session.foresee()


def load_job(
    session: Session,
    path: Path | str | None,
    *,
    miner_id: int | None = None,
    sector_number: int | None = None,
) -> Job:
    """Read a job file or a C1 output for the session's circuit; `check` verifies it.

    Args:
        session: From `open_session`.
        path: The file; None for the job of the config's synthetic sector, which is made unless
            it is there.
        miner_id: Whose sectors they must be. Most C1 outputs do not say; their replica_id is
            checked where both numbers are known.
        sector_number: Which sector it must be.
    """
    if path is None:
        path = synthetic_job(session)
        miner_id = MINER_ID if miner_id is None else miner_id
        sector_number = SECTOR_NUMBER if sector_number is None else sector_number
    return pipeline.read_job(session, Path(path), miner_id, sector_number)


def notes(session: Session, job: Job) -> list[str]:
    """What whoever proves the job should know, such as that its proofs are not aggregated."""
    return session.circuit.notes(job)


def load_randomisers(path: Path | str, job: Job) -> list[Randomisers]:
    """Read r and s of each of a job's partitions, to make the same proof again."""
    return _load_randomisers(Path(path), job.n_partitions)


def check(session: Session, job: Job) -> None:
    """Verify the vanilla proofs of a job; raises `InputError` naming the first that fails."""
    pipeline.check_job(session, job)


def prove(
    session: Session, job: Job, keys: Keys, randomisers: Sequence[Randomisers] | None = None
) -> ProofResult:
    """Prove a checked job; the result is verified. With `randomisers` the bytes repeat.

    For several devices see `open_sites` and `prove_job`, for several jobs `prove_many`, and for
    jobs that come and go `ProofService`.
    """
    return prove_job([Site(session, keys)], job, randomisers)


def verify(session: Session, job: Job, proof: bytes, key: VerifyingKey) -> None:
    """Raise `ProofError` unless `proof`, 192 bytes a partition, proves the job under `key`."""
    pipeline.verify_job(session, job, proof, key)


def write_dev_keys(
    session: Session, folder: Path | str, toxic_waste: Path | str | None = None
) -> tuple[Path, Path, VerifyingKey]:
    """Make keys from known toxic waste, the public one by default: for development only.

    Returns:
        Paths of the `.params` and `.vk` files, and the verifying key.
    """
    waste = load_toxic_waste(Path(toxic_waste)) if toxic_waste else DEV
    return make_dev_keys(session, Path(folder), waste)
