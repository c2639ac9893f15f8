"""Messages of clients to requests, every field checked by itself.

Source: the wire contract of cuzk.v1; numbers of registered proofs are `circuits.registered`'s.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from google.protobuf.message import DecodeError, Message

from torchzk.circuits.registered import (
    REGISTERED_POSTS,
    REGISTERED_SEALS,
    REGISTERED_UPDATES,
    Registered,
)
from torchzk.circuits.sectors import SECTOR_SHAPES
from torchzk.errors import InputError
from torchzk.serving.circuit_ids import circuit_word
from torchzk.serving.engine import Priority, ProofKind, ProofRequest
from torchzk.serving.wire import proving_pb2 as wire

MAX_ID_BYTES = 1024
"""The longest request id: several times a window PoSt's, which holds 32 numbers."""

KINDS = {
    wire.POREP_SEAL_COMMIT: ProofKind.POREP,
    wire.SNAP_DEALS_UPDATE: ProofKind.UPDATE,
    wire.WINDOW_POST_PARTITION: ProofKind.WINDOW,
    wire.WINNING_POST: ProofKind.WINNING,
}
_USUAL_PRIORITY = {ProofKind.WINNING: Priority.CRITICAL, ProofKind.WINDOW: Priority.HIGH}
_HASHES = {
    ProofKind.POREP: (),
    ProofKind.UPDATE: ("comm_r_old", "comm_r_new", "comm_d_new"),
    ProofKind.WINDOW: ("randomness",),
    ProofKind.WINNING: ("randomness",),
}
"""Fields of 32 bytes that a kind needs; it has none of the others."""

_Message = TypeVar("_Message", bound=Message)


def parse(cls: type[_Message], raw: bytes) -> _Message:
    """A message from its bytes; raises `InputError` where they are none."""
    message = cls()
    try:
        message.ParseFromString(raw)
    except DecodeError as e:
        raise InputError(f"{len(raw)} bytes are no {cls.DESCRIPTOR.name}") from e
    return message


def proof_request(said: wire.SubmitProofRequest) -> ProofRequest:
    """What a client asks for.

    Raises:
        InputError: With the field that is wrong and what it should be.
    """
    if said.proof_kind not in KINDS:
        known = ", ".join(f"{number} ({kind.value})" for number, kind in KINDS.items())
        raise InputError(f"proof_kind: {said.proof_kind} is none of {known}")
    kind = KINDS[said.proof_kind]
    length = len(said.request_id.encode())
    if length > MAX_ID_BYTES:
        raise InputError(f"request_id: has {length} bytes, {MAX_ID_BYTES} are the most")
    sector_size, registered = _circuit(said, kind)
    for name in ("randomness", "comm_r_old", "comm_r_new", "comm_d_new"):
        _check_hash(name, getattr(said, name), kind)
    return ProofRequest(
        request_id=said.request_id,
        kind=kind,
        sector_size=sector_size,
        registered_proof=registered,
        priority=_priority(said.priority, kind),
        vanilla_proofs=_vanilla_proofs(said, kind),
        sector_number=said.sector_number,
        miner_id=said.miner_id,
        partition_index=_partition_index(said, kind),
        randomness=said.randomness,
        comm_r_old=said.comm_r_old,
        comm_r_new=said.comm_r_new,
        comm_d_new=said.comm_d_new,
        seconds=said.deadline_ms / 1000 if said.deadline_ms else None,
    )


def _circuit(said: wire.SubmitProofRequest, kind: ProofKind) -> tuple[int, int | None]:
    """Sector size, and number of the registered proof, or None where that is not said."""
    size, number = said.sector_size, said.registered_proof
    if size and size not in SECTOR_SHAPES:
        known = ", ".join(f"{s.sector_size} ({s.name})" for s in SECTOR_SHAPES.values())
        raise InputError(f"sector_size: {size} is no size of a sector; known: {known}")
    # a message cannot tell 0 from nothing
    if number == 0:
        if size == 0:
            raise InputError("sector_size: neither it nor registered_proof is said")
        return size, None
    found = next((p for p in _registered(kind) if p.number == number), None)
    if found is None:
        known = ", ".join(f"{p.number} ({p.name})" for p in _registered(kind) if p.number)
        raise InputError(f"registered_proof: {number} is no {kind.value} proof; known: {known}")
    if size not in (0, found.sector_size):
        raise InputError(
            f"registered_proof: {number} is {found.name}, of sectors of {found.sector_size} bytes;"
            f" sector_size is {size}"
        )
    return found.sector_size, number


def _registered(kind: ProofKind) -> Iterable[Registered]:
    if kind is ProofKind.POREP:
        return REGISTERED_SEALS
    if kind is ProofKind.UPDATE:
        return REGISTERED_UPDATES
    return [p for p in REGISTERED_POSTS if p.kind == circuit_word(kind)]


def _check_hash(name: str, value: bytes, kind: ProofKind) -> None:
    wanted = 32 if name in _HASHES[kind] else 0
    if len(value) != wanted:
        problem = f"must have 32 bytes, has {len(value)}" if wanted else "does not belong to it"
        raise InputError(f"{name}: {problem}, the proof is a {kind.value}")


def _priority(said: int, kind: ProofKind) -> Priority:
    """What is unknown is normal, as with cuzk; what is not said depends on the kind."""
    if said == wire.PRIORITY_UNSPECIFIED:
        return _USUAL_PRIORITY.get(kind, Priority.NORMAL)
    return Priority(said) if said in list(Priority) else Priority.NORMAL


def _partition_index(said: wire.SubmitProofRequest, kind: ProofKind) -> int:
    if said.partition_index and kind is not ProofKind.WINDOW:
        raise InputError(
            f"partition_index: {said.partition_index}, but the proof is a {kind.value}"
        )
    return said.partition_index


def _vanilla_proofs(said: wire.SubmitProofRequest, kind: ProofKind) -> tuple[bytes, ...]:
    """All of them, of which there must be some, none of them empty."""
    porep = kind is ProofKind.POREP
    own, others = (
        ("vanilla_proof", "vanilla_proofs") if porep else ("vanilla_proofs", "vanilla_proof")
    )
    proofs = (said.vanilla_proof,) if porep else tuple(said.vanilla_proofs)
    if not proofs or not all(proofs):
        problem = f"the one at index {proofs.index(b'')} is empty" if proofs else "there is none"
        raise InputError(f"{own}: {'is empty' if porep else problem}, the proof is a {kind.value}")
    if getattr(said, others):
        raise InputError(f"{others}: does not belong to a {kind.value}, which has {own}")
    return proofs
