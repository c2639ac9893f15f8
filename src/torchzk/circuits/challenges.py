"""Challenged leaves of a PoSt. Source: spec/post_update.md section 2."""

from __future__ import annotations

import hashlib

from torchzk.circuits.registered import ApiVersion


def leaf_challenge(randomness: bytes, sector_id: int, index: int, n_nodes: int) -> int:
    """The leaf of TreeR that challenge `index` of a sector asks for.

    Args:
        randomness: 32 bytes, a canonical little-endian Fr.
        sector_id: Sector number.
        index: One of `challenge_indexes`.
        n_nodes: Leaves of the tree.
    """
    message = randomness + sector_id.to_bytes(8, "little") + index.to_bytes(8, "little")
    return int.from_bytes(hashlib.sha256(message).digest()[:8], "little") % n_nodes


def challenge_indexes(api: ApiVersion, place: int, n_challenges: int) -> range:
    """Indexes of the `n_challenges` challenges of a sector.

    From API 1.2.0 on every sector has the same ones; before, they run on over all sectors.

    Args:
        api: Version of the registered proof.
        place: The sector's place among those of all partitions, full partitions assumed.
        n_challenges: Challenges a sector.
    """
    start = 0 if api is ApiVersion.V1_2 else place * n_challenges
    return range(start, start + n_challenges)
