"""The prover id of a miner. Source: spec/porep.md section 3."""

from __future__ import annotations

PROVER_ID_BYTES = 32
MAX_MINER_ID = (1 << 64) - 1


def prover_id(miner_id: int) -> bytes:
    """Actor number `miner_id`, below 2^64, as unsigned LEB128 zero-padded to 32 bytes."""
    digits = bytearray()
    while miner_id >= 0x80:
        digits.append(miner_id & 0x7F | 0x80)
        miner_id >>= 7
    digits.append(miner_id)
    return bytes(digits).ljust(PROVER_ID_BYTES, b"\0")
