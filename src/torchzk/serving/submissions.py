"""Requests from files, in the forms that cuzk's own tool takes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torchzk.circuits.json_input import Node, parse_json, read_file
from torchzk.errors import ConfigError, one_line
from torchzk.serving.circuit_ids import circuit_word
from torchzk.serving.engine import Priority, ProofKind
from torchzk.serving.requests import KINDS, proof_request
from torchzk.serving.wire import proving_pb2 as wire

TYPES = {
    "porep": ProofKind.POREP,
    "snap": ProofKind.UPDATE,
    "wpost": ProofKind.WINDOW,
    "winning": ProofKind.WINNING,
}
"""Kinds as cuzk's tool calls them."""

_NUMBERS = {kind: number for number, kind in KINDS.items()}
_USUAL_SIZE = 32 << 30
_U64 = (1 << 64) - 1
_JOB_NUMBERS = {
    "sector_size": _U64,
    "miner_id": _U64,
    "sector_number": _U64,
    "partition_index": (1 << 32) - 1,
    "registered_proof": _U64,
}
"""Numbers that a job file may say, and the most that a message can."""
_JOB_HASHES = ("randomness", "comm_r_old", "comm_r_new", "comm_d_new")


@dataclass(frozen=True, kw_only=True)
class Submission:
    """What is to be proven, as flags say it."""

    kind: ProofKind
    sector_size: int = 0
    """0: what the job file says, or else 32 GiB."""
    c1: Path | None = None
    """PoRep: the C1 output."""
    vanilla: Path | None = None
    """Others: a JSON array of vanilla proofs as base64, one as base64, or a job file with such."""
    registered_proof: int = 0
    sector_number: int = 0
    miner_id: int = 0
    partition_index: int = 0
    randomness: bytes = b""
    comm_r_old: bytes = b""
    comm_r_new: bytes = b""
    comm_d_new: bytes = b""
    priority: Priority | None = None
    deadline_seconds: float | None = None
    request_id: str = ""

    def named(self, request_id: str) -> Submission:
        """The same under another id."""
        return replace(self, request_id=request_id)


def message_of(said: Submission) -> wire.SubmitProofRequest:
    """The request of a submission, found to be one that a service takes.

    Raises:
        ConfigError: A flag is missing or cannot be read.
        InputError: A file is not what it should be, or a value is not.
    """
    porep = said.kind is ProofKind.POREP
    flag, path, other = (
        ("--c1", said.c1, said.vanilla) if porep else ("--vanilla", said.vanilla, said.c1)
    )
    if path is None or other is not None:
        name = next(name for name, kind in TYPES.items() if kind is said.kind)
        raise ConfigError(f"{flag}: a {name} needs it, and not {'--vanilla' if porep else '--c1'}")
    raw = read_file(path)
    proofs: list[bytes] = []
    if not porep:
        if raw.lstrip().startswith(b"{"):
            said, node = _with_job(said, parse_json(raw, str(path)))
            proofs = _proofs_of_job(node)
        else:
            proofs = read_vanilla_proofs(raw, str(path))
    message = _message(
        request_id=said.request_id,
        proof_kind=_NUMBERS[said.kind],
        sector_size=said.sector_size or _USUAL_SIZE,
        registered_proof=said.registered_proof,
        priority=wire.Priority.Name(said.priority or 0),
        vanilla_proof=raw if porep else b"",
        vanilla_proofs=proofs,
        sector_number=said.sector_number,
        miner_id=said.miner_id,
        partition_index=said.partition_index,
        randomness=said.randomness,
        comm_r_old=said.comm_r_old,
        comm_r_new=said.comm_r_new,
        comm_d_new=said.comm_d_new,
        deadline_ms=round((said.deadline_seconds or 0) * 1000),
    )
    proof_request(message)
    return message


def _message(**fields: Any) -> wire.SubmitProofRequest:
    try:
        return wire.SubmitProofRequest(**fields)
    except ValueError as e:
        # what files say is in range: it is a flag's
        raise ConfigError(f"no request can say this: {one_line(e)}") from e


def _with_job(said: Submission, node: Node) -> tuple[Submission, Node]:
    """A submission with what a job file says and no flag does, and the file's vanilla proofs."""
    fields = node.fields(("kind", "vanilla_proofs"), (*_JOB_NUMBERS, *_JOB_HASHES))
    if fields["kind"].text() != circuit_word(said.kind):
        fields["kind"].fail(f"the job is no {circuit_word(said.kind)}")
    found: dict[str, Any] = {
        name: fields[name].integer(most) for name, most in _JOB_NUMBERS.items() if name in fields
    }
    found |= {name: fields[name].hex32() for name in _JOB_HASHES if name in fields}
    missing = {name: value for name, value in found.items() if not getattr(said, name)}
    return replace(said, **missing), fields["vanilla_proofs"]


def _proofs_of_job(node: Node) -> list[bytes]:
    """As the wire has them; raises `InputError` where they are JSON."""
    proofs = list(node.items())
    for proof in proofs:
        if not isinstance(proof.value, str):
            proof.fail("is JSON; a service takes vanilla proofs as base64 of their bincode")
    return [proof.base64() for proof in proofs]


def read_vanilla_proofs(raw: bytes, document: str) -> list[bytes]:
    """Vanilla proofs in a JSON array of base64, or one as base64 alone; raises `InputError`."""
    if not raw.lstrip().startswith((b"[", b'"')):
        return [Node(raw.decode("ascii", "replace").strip(), document).base64()]
    node = parse_json(raw, document)
    if isinstance(node.value, str):
        return [node.base64()]
    return [member.base64() for member in node.items()]
