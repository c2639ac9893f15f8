"""Challenged nodes of a PoRep. Source: spec/porep.md section 7."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

import numpy as np

from torchzk.circuits.chacha import BLOCK_BYTES, chacha_blocks
from torchzk.circuits.registered import RegisteredSeal
from torchzk.circuits.sectors import NODE_BYTES

_MAX_SYNTHETIC = 1 << 18
_NON_INTERACTIVE = b"filecoin.io|PoRep|1|NonInteractive|1"
_GENERATION = b"filecoin.io|PoRep|1|Synthetic|1|Generation"
_SELECTION = b"filecoin.io|PoRep|1|Synthetic|1|Selection"
_NONCE = b"synth-porep\0"
_CHALLENGE_BYTES = 32
_INDEX_BYTES = 4


def seal_challenges(
    registered: RegisteredSeal,
    partition: int,
    n_challenges: int,
    *,
    replica_id: bytes,
    comm_r: bytes,
    seed: bytes,
) -> list[int]:
    """The challenges of one partition, in order; none of them is 0.

    Args:
        registered: Says how challenges are drawn, and from how many nodes.
        partition: Its index, from 0.
        n_challenges: Challenges a partition.
        replica_id: 32 bytes.
        comm_r: 32 bytes; interactive challenges do not depend on it.
        seed: 32 bytes from the chain; non-interactive challenges ignore it.
    """
    n_nodes = registered.sector_size // NODE_BYTES
    places = range(partition * n_challenges, (partition + 1) * n_challenges)
    if not registered.interactive:
        return _hashed(_NON_INTERACTIVE + replica_id + comm_r, places, n_nodes)
    if not registered.synthetic:
        return _hashed(replica_id + seed, places, n_nodes)
    n_synthetic = min(n_nodes, _MAX_SYNTHETIC)
    chosen = selected_indexes(replica_id, seed, n_synthetic, places)
    return synthetic_challenges(replica_id, comm_r, n_nodes, chosen)


def synthetic_challenges(
    replica_id: bytes, comm_r: bytes, n_nodes: int, indexes: Sequence[int]
) -> list[int]:
    """Those of a sector's synthetic challenges that have these indexes."""
    key = hashlib.blake2b(replica_id + comm_r, digest_size=32, key=_GENERATION).digest()
    pieces = _keystream_pieces(key, indexes, _CHALLENGE_BYTES)
    return [_to_challenge(piece, n_nodes) for piece in pieces]


def selected_indexes(
    replica_id: bytes, seed: bytes, n_synthetic: int, places: Sequence[int]
) -> list[int]:
    """Which of `n_synthetic` synthetic challenges the seed picks for these places."""
    key = hashlib.blake2b(replica_id + seed, digest_size=32, key=_SELECTION).digest()
    pieces = _keystream_pieces(key, places, _INDEX_BYTES)
    return [int.from_bytes(piece, "little") % n_synthetic for piece in pieces]


def _hashed(prefix: bytes, places: Iterable[int], n_nodes: int) -> list[int]:
    digests = (hashlib.sha256(prefix + j.to_bytes(4, "little")).digest() for j in places)
    return [_to_challenge(digest, n_nodes) for digest in digests]


def _to_challenge(value: bytes, n_nodes: int) -> int:
    return int.from_bytes(value, "little") % (n_nodes - 1) + 1


def _keystream_pieces(key: bytes, places: Sequence[int], size: int) -> list[bytes]:
    """Bytes `[size i, size (i + 1))` of a ChaCha20 keystream for each place i."""
    per_block = BLOCK_BYTES // size
    counter = np.empty((4, len(places)), dtype=np.uint32)
    counter[0] = np.asarray(places) // per_block
    counter[1:] = np.frombuffer(_NONCE, dtype="<u4")[:, None]
    words = chacha_blocks(np.frombuffer(key, dtype="<u4")[:, None], counter, 20)
    stream = np.ascontiguousarray(words.T).astype("<u4").tobytes()
    starts = (i * BLOCK_BYTES + place % per_block * size for i, place in enumerate(places))
    return [stream[start : start + size] for start in starts]
