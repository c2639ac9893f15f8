"""Poseidon over Fr as Filecoin uses it: every constant is derived from the arity.

Source: spec/gadgets.md section 6; Grassi et al., "Poseidon", 2021 (Grain LFSR: its appendix E).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice

from torchzk.params.fields import FR

Vector = tuple[int, ...]
Matrix = tuple[Vector, ...]

FULL_ROUNDS = 8
PARTIAL_ROUNDS = {
    **dict.fromkeys(range(2, 4), 55),
    **dict.fromkeys(range(4, 8), 56),
    **dict.fromkeys(range(8, 16), 57),
    **dict.fromkeys((16, 17, 25), 59),
    37: 60,
    65: 61,
}
"""By width, the number of rounds that give 128 bits of security with some to spare."""

_BITS = FR.modulus.bit_length()
_HALF = FULL_ROUNDS // 2


@dataclass(frozen=True)
class Poseidon:
    """One instance: x^5, 8 full rounds, `arity` inputs behind a domain tag, one output.

    Raises:
        ValueError: The number of rounds is not specified for this arity, or the tag is not in Fr.
    """

    arity: int
    tag: int
    """Element 0 of the initial state, canonical."""

    def __post_init__(self) -> None:
        if self.width not in PARTIAL_ROUNDS:
            raise ValueError(f"Poseidon of arity {self.arity} is not specified")
        if not 0 <= self.tag < FR.modulus:
            raise ValueError(f"domain tag {self.tag} is not an element of Fr")

    @classmethod
    def merkle(cls, arity: int) -> Poseidon:
        """Tree nodes, columns and comm_r: tag 2^arity - 1."""
        return cls(arity, (1 << arity) - 1)

    @classmethod
    def randomness(cls) -> Poseidon:
        """The randomness of a sector update: arity 2, tag 2^40."""
        return cls(2, 1 << 40)

    @property
    def width(self) -> int:
        """t, the elements of the state."""
        return self.arity + 1

    @property
    def full_rounds(self) -> int:
        return FULL_ROUNDS

    @property
    def partial_rounds(self) -> int:
        return PARTIAL_ROUNDS[self.width]

    @property
    def round_constants(self) -> Vector:
        """(full + partial) * t constants, round by round."""
        return _round_constants(self.width)

    @property
    def mds(self) -> Matrix:
        """The symmetric t x t matrix 1 / (i + j + t)."""
        return _mds(self.width)

    @property
    def compressed(self) -> Vector:
        """full * t + partial constants, each added after an S-box but for the first t."""
        return _compressed(self.width)

    @property
    def pre_sparse(self) -> Matrix:
        """t x t, the linear layer before the partial rounds; a row vector is multiplied by it."""
        return _factored(self.width)[0]

    @property
    def sparse(self) -> tuple[tuple[Vector, Vector], ...]:
        """(w_hat of t, v_rest of t - 1) for each partial round.

        state[0] becomes <w_hat, state>, state[j] grows by v_rest[j - 1] * state[0].
        """
        return _factored(self.width)[1]

    @property
    def n_wires(self) -> int:
        """Variables, and as many constraints, that the circuit of one hash allocates."""
        sboxes = self.width * self.full_rounds + self.partial_rounds
        return 3 * (sboxes - 1) + (sboxes - self.arity)

    def digest(self, inputs: Sequence[int]) -> int:
        """The hash of `arity` canonical integers by the definition (6.2), which judges the rest."""
        if len(inputs) != self.arity:
            raise ValueError(f"Poseidon of arity {self.arity} got {len(inputs)} inputs")
        state = [self.tag, *inputs]
        partial = range(_HALF, _HALF + self.partial_rounds)
        for i in range(self.full_rounds + self.partial_rounds):
            constants = self.round_constants[i * self.width : (i + 1) * self.width]
            state = [s + k for s, k in zip(state, constants, strict=True)]
            n_sboxes = 1 if i in partial else self.width
            state[:n_sboxes] = [pow(s, 5, FR.modulus) for s in state[:n_sboxes]]
            state = list(_apply(self.mds, state))
        return state[1]


def _grain(width: int) -> Iterator[int]:
    """Bits of the Grain LFSR, as they leave the register; bit 0 of `state` is the oldest."""
    rounds = f"{FULL_ROUNDS:010b}{PARTIAL_ROUNDS[width]:010b}"
    # a prime field, an S-box x^k
    text = f"{1:02b}{1:04b}{_BITS:012b}{width:012b}{rounds}{'1' * 30}"
    state = int(text[::-1], 2)
    # the newest tap is bit 62 of 80, so 18 bits can be had at once
    step = 18
    mask = (1 << step) - 1
    while True:
        new = state ^ state >> 13 ^ state >> 23 ^ state >> 38 ^ state >> 51 ^ state >> 62
        new &= mask
        state = state >> step | new << 80 - step
        yield from (new >> i & 1 for i in range(step))


@lru_cache(maxsize=16)
def _round_constants(width: int) -> Vector:
    bits = islice(_grain(width), 160, None)
    # of two bits the first says whether the second counts
    kept = (second for first, second in zip(bits, bits, strict=False) if first)
    constants: list[int] = []
    while len(constants) < (FULL_ROUNDS + PARTIAL_ROUNDS[width]) * width:
        value = int("".join(map(str, islice(kept, _BITS))), 2)
        if value < FR.modulus:
            constants.append(value)
    return tuple(constants)


@lru_cache(maxsize=16)
def _mds(width: int) -> Matrix:
    inverses = [pow(i + width, -1, FR.modulus) for i in range(2 * width - 1)]
    return tuple(tuple(inverses[i : i + width]) for i in range(width))


@lru_cache(maxsize=16)
def _compressed(width: int) -> Vector:
    """Constants moved through the linear layers, so that partial rounds need one each (6.3)."""
    n_partial = PARTIAL_ROUNDS[width]
    constants = _round_constants(width)
    rounds = [constants[i : i + width] for i in range(0, len(constants), width)]
    inverse = _inverse(_mds(width))
    last = _HALF + n_partial
    single: list[int] = []
    pending = rounds[last]
    for before in rounds[last - 1 : _HALF - 1 : -1]:
        first, *rest = _apply(inverse, pending)
        single.append(first)
        pending = (before[0], *(a + b for a, b in zip(before[1:], rest, strict=True)))
    layers = [*rounds[1:_HALF], pending]
    out = [*rounds[0], *(c for layer in layers for c in _apply(inverse, layer)), *single[::-1]]
    return (*out, *(c for layer in rounds[last + 1 :] for c in _apply(inverse, layer)))


@lru_cache(maxsize=16)
def _factored(width: int) -> tuple[Matrix, tuple[tuple[Vector, Vector], ...]]:
    """The pre-sparse matrix and the sparse rounds (6.3).

    Factor k of the recursion in 6.3 is [[m, v H^k], [w, H^(k+1)]] where M = [[m, v], [w, H]]:
    only a vector changes from round to round.
    """
    n_partial = PARTIAL_ROUNDS[width]
    mds = _mds(width)
    corner, v = mds[0][0], mds[0][1:]
    column = v
    hat = tuple(row[1:] for row in mds[1:])
    inverse = _inverse(hat)
    records: list[tuple[Vector, Vector]] = []
    w = column
    for _ in range(n_partial):
        w = _apply(inverse, w)
        records.append(((corner, *w), v))
        # M is symmetric, and so are H and its powers: v H = H v
        v = _apply(hat, v)
    power = hat
    for bit in bin(n_partial + 1)[3:]:
        power = _product(power, power)
        if bit == "1":
            power = _product(power, hat)
    below = ((c, *row) for c, row in zip(column, power, strict=True))
    return ((corner, *v), *below), tuple(records[::-1])


def _apply(matrix: Matrix, vector: Sequence[int]) -> Vector:
    return tuple(
        sum(a * b for a, b in zip(row, vector, strict=True)) % FR.modulus for row in matrix
    )


def _product(left: Matrix, right: Matrix) -> Matrix:
    columns = tuple(zip(*right, strict=True))
    return tuple(_apply(columns, row) for row in left)


def _inverse(matrix: Matrix) -> Matrix:
    """By Gauss and Jordan. No pivot is zero: no leading minor of a Cauchy matrix is."""
    p, n = FR.modulus, len(matrix)
    rows = [[*row, *(int(i == j) for j in range(n))] for i, row in enumerate(matrix)]
    for i in range(n):
        factor = pow(rows[i][i], -1, p)
        pivot = rows[i] = [x * factor % p for x in rows[i]]
        for j in range(n):
            if j != i and (k := rows[j][i]):
                rows[j] = [(x - k * y) % p for x, y in zip(rows[j], pivot, strict=True)]
    return tuple(tuple(row[n:]) for row in rows)
