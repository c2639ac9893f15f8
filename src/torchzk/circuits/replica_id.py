"""What binds a replica to its miner, sector and data. Source: spec/porep.md sections 2, 3 and 6."""

from __future__ import annotations

import hashlib

from torchzk.circuits.registered import RegisteredSeal
from torchzk.params.poseidon import Poseidon


def porep_id(registered: RegisteredSeal) -> bytes:
    """32 bytes: the number of the registered proof, then a nonce that is always 0."""
    return registered.number.to_bytes(8, "little").ljust(32, b"\0")


def replica_id(
    prover_id: bytes, sector_id: int, ticket: bytes, comm_d: bytes, porep_id: bytes
) -> bytes:
    """A canonical little-endian Fr below 2^254, from values of 32 bytes and a sector number."""
    message = prover_id + sector_id.to_bytes(8, "big") + ticket + comm_d + porep_id
    return clear_top_bits(hashlib.sha256(message).digest())


def replica_commitment(comm_c: bytes, comm_r_last: bytes) -> bytes:
    """comm_r, from the roots of TreeC and TreeR: canonical little-endian Fr, all three."""
    roots = [int.from_bytes(root, "little") for root in (comm_c, comm_r_last)]
    return Poseidon.merkle(2).digest(roots).to_bytes(32, "little")


def clear_top_bits(digest: bytes) -> bytes:
    """32 bytes as a little-endian integer below 2^254, and so below r."""
    return digest[:31] + bytes([digest[31] & 0x3F])
