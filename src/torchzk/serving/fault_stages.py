"""Which stage of a proof went wrong: what it gave beside what the reference gives for it.

Stages up to the quotient are computed once more where the proof was made, query sums are those of
the proof itself; the reference computes everything on the host. Equal inputs give equal bytes, so
the first stage that differs is the one to look at.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch

from torchzk.backends import BackendChoice, load_backend
from torchzk.circuits.circuit import Job
from torchzk.errors import ProofError, TorchzkError
from torchzk.files import atomic_write
from torchzk.groth16.keys import QUERIES, VerifyingKey
from torchzk.groth16.products import products
from torchzk.groth16.proofs import read_proofs
from torchzk.groth16.prover import query_sums
from torchzk.groth16.r1cs import Assignment
from torchzk.groth16.verifier import verify
from torchzk.params.curves import Point
from torchzk.scheduler.key_store import get_keys
from torchzk.scheduler.proof_work import Site
from torchzk.scheduler.session import Session
from torchzk.timeline import Timeline

MOST_ROWS = 1 << 21
"""Of an evaluation domain: beyond it the reference takes hours, and more memory than is free."""


@dataclass(frozen=True)
class Stage:
    """Digests of what one stage gave."""

    name: str
    """`witness`, `products a`, `quotient`, `msm b_g2` and so on."""
    got: str
    reference: str

    @property
    def differs(self) -> bool:
        return self.got != self.reference


def faulty_partitions(
    session: Session, key: VerifyingKey, job: Job, pieces: Sequence[bytes]
) -> list[int]:
    """The partitions whose proofs do not hold by themselves."""
    return [
        k
        for k, piece in enumerate(pieces)
        if not _holds(key, piece, session.circuit.public_inputs(job, k))
    ]


def stages(site: Site, job: Job, index: int, sums: Mapping[str, Point]) -> list[Stage]:
    """All stages of a partition, in order.

    Args:
        site: Where it was proved.
        job: Whose partition it is.
        index: Which one.
        sums: What its proof was made of, by the names of `QUERIES`.

    Raises:
        TorchzkError: Whatever the reference raises, as `UnsatisfiedError` for the wrong witness.
    """
    reference = _reference(site.session)
    ours, theirs = (_vectors(session, job, index) for session in (site.session, reference))
    found = [Stage(name, got, theirs[name]) for name, got in ours.items()]
    expected = _sums(reference, job, index)
    names = [name for name in QUERIES if name in sums]
    return found + [
        Stage(f"msm {name}", _digest(repr(sums[name])), _digest(repr(expected[name])))
        for name in names
    ]


def write_stages(
    folder: Path, job: Job, parts: Mapping[int, tuple[Site, Mapping[str, Point]]]
) -> None:
    """Write `stages.json`: of each partition its stages, and the first that went wrong.

    Args:
        folder: Where to.
        job: Whose partitions they are.
        parts: By index where it was proved, and its query sums.
    """
    report: dict[str, object] = {}
    for index, (site, sums) in sorted(parts.items()):
        rows = site.session.r1cs.domain.size
        if rows > MOST_ROWS:
            report[str(index)] = f"not computed again: {rows:,} rows, {MOST_ROWS:,} at most"
            continue
        try:
            found = stages(site, job, index, sums)
        except TorchzkError as error:
            report[str(index)] = f"cannot be computed again: {error}"
            continue
        wrong = [stage.name for stage in found if stage.differs]
        report[str(index)] = {
            "first_that_differs": wrong[0] if wrong else None,
            "differ": wrong,
            "stages": [asdict(stage) for stage in found],
        }
    with atomic_write(folder / "stages.json") as file:
        file.write(json.dumps(report, indent=1).encode())


def _holds(key: VerifyingKey, piece: bytes, inputs: Sequence[int]) -> bool:
    try:
        (proof,) = read_proofs(piece, 1)
        return verify(key, proof, inputs)
    except ProofError:
        return False


def _reference(session: Session) -> Session:
    made = replace(
        session,
        config=replace(session.config, device="cpu", backend="torch"),
        device=torch.device("cpu"),
        backend=load_backend("torch"),
        choice=BackendChoice("torch"),
        timeline=Timeline(),
    )
    # of the host alone, and recorded once
    vars(made).update(r1cs=session.r1cs)
    return made


def _assignment(session: Session, job: Job, index: int) -> Assignment:
    given = session.circuit.witness(session.backend, session.device, job, index)
    made: Assignment = session.circuit.assignment(session.backend, given)
    return made


def _vectors(session: Session, job: Job, index: int) -> dict[str, str]:
    assignment = _assignment(session, job, index)
    digests = {"witness": _digest(assignment.inputs, assignment.aux)}
    a, b, c = products(session.backend, session.r1cs, assignment)
    digests |= {"products a": _digest(a), "products b": _digest(b), "products c": _digest(c)}
    digests["quotient"] = _digest(session.backend.quotient(a, b, c, session.r1cs.domain))
    return digests


def _sums(session: Session, job: Job, index: int) -> Mapping[str, Point]:
    with get_keys(session) as keys:
        return query_sums(
            session.backend,
            keys.proving,
            session.r1cs,
            lambda: _assignment(session, job, index),
            Timeline(),
            circuit=session.circuit.name,
            room=session.plan.room,
        )


def _digest(*values: torch.Tensor | str) -> str:
    hashed = hashlib.sha256()
    for value in values:
        if isinstance(value, str):
            hashed.update(value.encode())
        else:
            hashed.update(value.contiguous().cpu().numpy().tobytes())
    return hashed.hexdigest()
