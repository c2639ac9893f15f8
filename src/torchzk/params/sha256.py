"""SHA-256's constants, from the primes that define them. Source: FIPS 180-4, 4.2.2 and 5.3.3."""

from __future__ import annotations

from math import isqrt

BLOCK_BYTES = 64
WORD_BITS = 32


def _primes(n: int) -> tuple[int, ...]:
    found: list[int] = []
    candidate = 2
    while len(found) < n:
        if all(candidate % p for p in found):
            found.append(candidate)
        candidate += 1
    return tuple(found)


def _cube_root(value: int) -> int:
    """The largest integer whose cube is at most `value`."""
    root = 0
    for bit in range(value.bit_length() // 3, -1, -1):
        if (root | 1 << bit) ** 3 <= value:
            root |= 1 << bit
    return root


_PRIMES = _primes(64)
_FRACTION = (1 << WORD_BITS) - 1

IV = tuple(isqrt(p << 2 * WORD_BITS) & _FRACTION for p in _PRIMES[:8])
"""The first state: the fractions of the square roots of the first 8 primes."""

K = tuple(_cube_root(p << 3 * WORD_BITS) & _FRACTION for p in _PRIMES)
"""The round constants: the fractions of the cube roots of the first 64 primes."""
