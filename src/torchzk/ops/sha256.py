"""SHA-256 of many messages of one length, in plain PyTorch. Source: FIPS 180-4, section 6.2.

Words are int64 below 2^32. Doubled words, x + x 2^32, turn the rotations of one word into shifts.
"""

from __future__ import annotations

import torch

from torchzk.errors import LayoutError
from torchzk.params.sha256 import BLOCK_BYTES, IV, WORD_BITS, K

_MASK = (1 << WORD_BITS) - 1
# messages that are worked on at once: their schedules take 512 bytes each
_PIECE = 1 << 16


def sha256(messages: torch.Tensor) -> torch.Tensor:
    """Digests of a batch.

    Args:
        messages: uint8 `[n, length]`.

    Returns:
        uint8 `[n, 32]`.

    Raises:
        LayoutError: `messages` is not a uint8 matrix.
    """
    check_messages(messages)
    n = messages.shape[0]
    if n > _PIECE:
        return torch.cat([sha256(messages[i : i + _PIECE]) for i in range(0, n, _PIECE)])
    words = _padded_words(messages)
    state = torch.tensor(IV, device=messages.device).unsqueeze(1).expand(-1, n)
    for i in range(0, words.shape[0], BLOCK_BYTES // 4):
        state = _compress(state, words[i : i + BLOCK_BYTES // 4])
    big_endian = torch.stack([state >> shift & 0xFF for shift in (24, 16, 8, 0)], dim=1)
    return big_endian.flatten(0, 1).t().to(torch.uint8).contiguous()


def check_messages(messages: torch.Tensor) -> None:
    """Raise `LayoutError` unless `messages` is a uint8 matrix."""
    if messages.dtype != torch.uint8 or messages.ndim != 2:
        raise LayoutError(
            f"messages are uint8 [n, length], got {messages.dtype} {list(messages.shape)}"
        )


def _padded_words(messages: torch.Tensor) -> torch.Tensor:
    """The padded messages as big-endian words, `[16 * blocks, n]`."""
    n, length = messages.shape
    zeros = -(length + 9) % BLOCK_BYTES
    end = bytes([0x80]) + bytes(zeros) + (8 * length).to_bytes(8, "big")
    padding = torch.tensor(list(end), dtype=torch.uint8, device=messages.device)
    padded = torch.cat((messages, padding.expand(n, -1)), dim=1)
    b = padded.t().to(torch.int64)
    return b[0::4] << 24 | b[1::4] << 16 | b[2::4] << 8 | b[3::4]


def _compress(state: torch.Tensor, block: torch.Tensor) -> torch.Tensor:
    """One block `[16, n]` into the state `[8, n]`."""
    schedule = list(block)
    for t in range(16, len(K)):
        x, y = _double(schedule[t - 15]), _double(schedule[t - 2])
        # the higher halves of doubled words hold nothing of use; the sum is cut
        sigma0 = x >> 7 ^ x >> 18 ^ schedule[t - 15] >> 3
        sigma1 = y >> 17 ^ y >> 19 ^ schedule[t - 2] >> 10
        schedule.append((sigma0 + sigma1 + schedule[t - 16] + schedule[t - 7]) & _MASK)
    a, b, c, d, e, f, g, h = state
    for k, word in zip(K, schedule, strict=True):
        x, y = _double(e), _double(a)
        choice = g ^ e & (f ^ g)
        t1 = h + _turns(x, 6, 11, 25) + choice + k + word
        majority = a & b | c & (a | b)
        t2 = _turns(y, 2, 13, 22) + majority
        a, b, c, d, e, f, g, h = (t1 + t2) & _MASK, a, b, c, (d + t1) & _MASK, e, f, g
    return state + torch.stack((a, b, c, d, e, f, g, h)) & _MASK


def _double(x: torch.Tensor) -> torch.Tensor:
    """x + x 2^32: its low word, shifted right by k < 32, is x rotated right by k."""
    return x | x << WORD_BITS


def _turns(x: torch.Tensor, i: int, j: int, k: int) -> torch.Tensor:
    """The exclusive or of three rotations of the word that `x` doubles, in the low word."""
    return x >> i ^ x >> j ^ x >> k
