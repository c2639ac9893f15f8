"""A proof request as a file: what is to be proven, without who asked and how urgently.

Layout: magic; bytes of the header as 8 bytes, little-endian; the header, JSON; then the byte
strings it gives the lengths of, one after the other. Nothing in it is ever run.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from torchzk.errors import StoreError, one_line
from torchzk.serving.engine import Priority, ProofKind, ProofRequest

_MAGIC = b"torchzk payload 1\n"
_MOST_HEADER = 1 << 24
_NUMBERS = ("sector_size", "registered_proof", "sector_number", "miner_id", "partition_index")
_STRINGS = ("randomness", "comm_r_old", "comm_r_new", "comm_d_new")


def encode(request: ProofRequest) -> Iterator[bytes]:
    """The pieces of a request's file, in order."""
    named = [getattr(request, name) for name in _STRINGS]
    strings = [*named, *request.vanilla_proofs]
    header = json.dumps(
        {
            "kind": request.kind.value,
            **{name: getattr(request, name) for name in _NUMBERS},
            "lengths": [len(s) for s in strings],
        }
    ).encode()
    yield _MAGIC
    yield len(header).to_bytes(8, "little")
    yield header
    yield from strings


def decode(raw: bytes, digest: bytes) -> ProofRequest:
    """A request from its file; request id, priority and deadline are not in there.

    Args:
        raw: The whole file.
        digest: `ProofRequest.digest` of what it must be.

    Raises:
        StoreError: It is damaged.
    """
    try:
        request = _parse(raw)
        found = request.digest()
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as e:
        raise StoreError(
            f"payload {digest.hex()}: is damaged: {one_line(e)}; submit the job again"
        ) from e
    if found != digest:
        raise StoreError(
            f"payload {digest.hex()}: its contents have another digest; submit the job again"
        )
    return request


def _parse(raw: bytes) -> ProofRequest:
    start = len(_MAGIC) + 8
    if not raw.startswith(_MAGIC) or len(raw) < start:
        raise ValueError("it does not begin as one")
    end = start + int.from_bytes(raw[start - 8 : start], "little")
    if end > min(len(raw), _MOST_HEADER):
        raise ValueError("its header goes beyond its end")
    header: Any = json.loads(raw[start:end])
    strings, at = [], end
    for length in header["lengths"]:
        # each byte once: less than none would go back over bytes that were taken
        if type(length) is not int or not 0 <= length <= len(raw) - at:
            left = len(raw) - at
            raise ValueError(f"its header says {one_line(length)} bytes, where {left:,} are left")
        strings.append(raw[at : at + length])
        at += length
    if at != len(raw):
        raise ValueError(f"it has {len(raw):,} bytes, its header says {at:,}")
    given: dict[str, Any] = {name: _number(name, header[name]) for name in _NUMBERS}
    given.update(zip(_STRINGS, strings, strict=False))
    return ProofRequest(
        request_id="",
        kind=ProofKind(header["kind"]),
        priority=Priority.NORMAL,
        vanilla_proofs=tuple(strings[len(_STRINGS) :]),
        **given,
    )


def _number(name: str, value: Any) -> int | None:
    """A number as it was given, which only a registered proof need not be."""
    if value is None and name == "registered_proof":
        return None
    if type(value) is not int or not 0 <= value < 1 << 64:
        raise ValueError(f"{name} is no number of 64 bits")
    return value
