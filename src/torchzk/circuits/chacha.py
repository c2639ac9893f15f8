"""Keystream blocks of ChaCha for many keys or counters at once. Source: RFC 8439, section 2.3."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Words = npt.NDArray[np.uint32]

BLOCK_BYTES = 64
_CONSTANTS = np.frombuffer(b"expand 32-byte k", dtype="<u4")[:, None]


def chacha_blocks(key: Words, counter: Words, rounds: int) -> Words:
    """The blocks of `n` lanes.

    Args:
        key: `[8, n]`, or `[8, 1]` for one key.
        counter: `[4, n]`, the last four words of a state: counter and nonce, however cut.
        rounds: 8 or 20.

    Returns:
        `[16, n]`, the words of each block in order.
    """
    n = counter.shape[1]
    start = np.concatenate(
        [np.broadcast_to(part, (len(part), n)) for part in (_CONSTANTS, key, counter)]
    )
    # rows of the 4 x 4 matrix: one quarter round works on all four columns
    a, b, c, d = (start[4 * i : 4 * i + 4].copy() for i in range(4))
    for _ in range(rounds // 2):
        a, b, c, d = _quarter_round(a, b, c, d)
        # diagonals become columns, and columns again
        b, c, d = (np.roll(row, -i, axis=0) for i, row in enumerate((b, c, d), start=1))
        a, b, c, d = _quarter_round(a, b, c, d)
        b, c, d = (np.roll(row, i, axis=0) for i, row in enumerate((b, c, d), start=1))
    mixed: Words = np.concatenate((a, b, c, d))
    mixed += start
    return mixed


def _quarter_round(a: Words, b: Words, c: Words, d: Words) -> tuple[Words, Words, Words, Words]:
    a = a + b
    d = _rotate(d ^ a, 16)
    c = c + d
    b = _rotate(b ^ c, 12)
    a = a + b
    d = _rotate(d ^ a, 8)
    c = c + d
    return a, _rotate(b ^ c, 7), c, d


def _rotate(x: Words, count: int) -> Words:
    return (x << np.uint32(count)) | (x >> np.uint32(32 - count))
