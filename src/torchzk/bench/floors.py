"""Times that nothing made of these operations can beat on one H200: its least work, at its rates.

Rates were measured on one NVIDIA H200 (132 multiprocessors at 1980 MHz): copies, loops of products
in registers, and counts of instructions a clock. Other cards have other floors.
"""

from __future__ import annotations

from torchzk.params.fields import FR
from torchzk.params.poseidon import Poseidon

COPY = 4.0e12
"""Bytes a second, read and written, of a large copy."""
FR_MUL = 65.6e9
"""Products a second."""
RATES: dict[tuple[str, str], float] = {
    ("mul", "fr"): FR_MUL,
    ("mul", "fp"): 27.6e9,
    # Karatsuba's three
    ("mul", "fp2"): 27.6e9 / 3,
    ("sqr", "fr"): 74.0e9,
    ("sqr", "fp"): 34.5e9,
    ("add", "fr"): 618e9,
    ("add", "fp"): 419e9,
}
"""Operations in registers a second, by operation and field: the best loop that was measured."""
_FP_MUL, _FP_SQR = RATES["mul", "fp"], RATES["sqr", "fp"]
_LOGIC = 28.8e12
"""32-bit additions and logic a second, mixed."""
_SHIFTS = 15.9e12
SCALAR_BITS = 255


def memory(n_bytes: float) -> float:
    """Seconds to move as many bytes."""
    return n_bytes / COPY


def chain(op: str, field: str, n: float) -> float:
    """n operations in registers."""
    return n / RATES[op, field]


def transform(log_n: int) -> float:
    """The products of a transform of 2^log_n: those by 1 in three stages are none; or its bytes."""
    n = 1 << log_n
    products = n * max(log_n / 2 - (1 - 0.5 ** min(log_n, 3)), 0.0)
    return max(products / FR_MUL, memory(2 * FR.n_bytes * n))


def quotient(log_n: int) -> float:
    """Six transforms and one product."""
    return 6 * transform(log_n) + (1 << log_n) / FR_MUL


def point_addition(degree: int) -> float:
    """An affine addition whose inversion is shared by many: 5 products and a square (3M each).

    In Fp2 a product is three of Fp and a square two.
    """
    if degree == 1:
        return 5 / _FP_MUL + 1 / _FP_SQR
    return (5 * 3 + 2) / _FP_MUL


def msm(n: int, degree: int, n_bits: int = SCALAR_BITS) -> float:
    """Buckets of signed digits, with the window that needs the fewest additions."""

    def additions(c: int) -> int:
        windows = -(-n_bits // c)
        # n in all into buckets, and two a bucket for their weighted sum, less one for its first
        return windows * (n + (1 << c - 1))

    return min(map(additions, range(2, 27))) * point_addition(degree)


def batch_add(n: int, degree: int) -> float:
    """n - 1 additions; or reading the points."""
    return max((n - 1) * point_addition(degree), memory(96 * degree * n))


def fixed_base(n: int, degree: int) -> float:
    """A table of the multiples in each window, and one addition for each window but the first."""

    def additions(c: int) -> int:
        windows = -(-SCALAR_BITS // c)
        return (windows - 1) * n + (windows << c - 1)

    return min(map(additions, range(2, 21))) * point_addition(degree)


def sparse(m: int, v: int, nnz: int, n_products: int) -> float:
    """Indices of 4 bytes, each vector once; or the products by coefficients other than 1 and -1."""
    return max(memory(8 * nnz + 4 * m + FR.n_bytes * (m + v)), n_products / FR_MUL)


def sha256(n_blocks: int, n_bytes: int) -> float:
    """FIPS 180-4 with rotations as shifts, and additions and logic of three operands."""
    shifts = 64 * 6 + 48 * 6
    others = 64 * (4 + 4) + 48 * (2 + 2)
    block = max(shifts / _SHIFTS, (shifts + others) / _LOGIC)
    return max(n_blocks * block, memory(n_bytes))


def poseidon(n: int, instance: Poseidon) -> float:
    """Products of S-boxes, full matrices and sparse ones."""
    t = instance.width
    full = instance.full_rounds * (3 * t + t * t)
    partial = instance.partial_rounds * (3 + 2 * t - 1)
    return n * (full + partial) / FR_MUL
