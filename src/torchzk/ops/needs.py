"""What the reference operations take of memory, in bytes, as functions of sizes alone.

Each figure is the peak beside the arguments, the result included. What a piece of a batch takes
(`chunks`) is the same for every size, and is in `pieces_bytes` once.
"""

from __future__ import annotations

from torchzk.ops import wide_points
from torchzk.ops.quotient import held_in_turn_bytes as held_in_turn_bytes
from torchzk.ops.quotient import quotient_bytes as quotient_bytes
from torchzk.ops.quotient import quotient_in_turn_bytes as quotient_in_turn_bytes
from torchzk.params.curves import Curve
from torchzk.params.domains import Domain


def pieces_bytes(*, on_cpu: bool) -> int:
    """Pieces of batches at work, tables, the libraries, and the rest that no size changes.

    A GPU works on pieces 2^8 times as long, and has no libraries in its memory.
    """
    return 1 << 29 if on_cpu else 3 << 29


def msm_bytes(n: int, curve: Curve, limit_bytes: int) -> int:
    """`msm` of `n` scalars, which cuts the points so that its account stays below the limit."""
    return min(limit_bytes, n * (_packed_bytes(curve) + 80) * 256 // 2)


def msm_window_bytes(n: int, curve: Curve) -> int:
    """The least scratch `msm` of `n` points wants: none, it takes what it is given."""
    return 0


def msm_limit(n: int, curve: Curve, limit_bytes: int) -> int:
    """The least limit with which `msm` does what it does with this one."""
    return limit_bytes


def tables_bytes(domain: Domain, *, in_turn: bool) -> int:
    """What stays on the device after a quotient: nothing."""
    return 0


def batch_add_bytes(n: int, curve: Curve) -> int:
    """`batch_add` of `n` points: those chosen, sums of halves, and those put together."""
    return 2 * n * row_bytes(curve)


def fixed_base_bytes(n: int, curve: Curve) -> int:
    """`fixed_base` of `n` scalars: the pieces of the result, and the result."""
    return 2 * n * row_bytes(curve)


def classes_bytes(n: int) -> int:
    """`classes` of `n` values."""
    return n


def matrix_bytes(rows: int, terms: int, coefficients: int) -> int:
    """A matrix on the device: `Csr`."""
    return 8 * (rows + 1) + 16 * terms + 32 * coefficients


def preparing_bytes(rows: int, terms: int, coefficients: int) -> int:
    """More than `matrix_bytes` at the first product: nothing, a matrix is read as it is."""
    return 0


def spmv_bytes(rows: int, longest: int) -> int:
    """`spmv_copies` for `rows` rows of all copies: the variables of a batch, and its product."""
    # see `spmv._MAX_VARIABLES`: in and out of copies that have so many
    return min(3 * 32 * rows, 3 * 32 << 22)


def transposed_bytes(rows: int, terms: int, columns: int) -> int:
    """The transposed matrix in the making: counts, an order, and indices of rows."""
    return matrix_bytes(columns, terms, 0) + 8 * 3 * terms + 16 * columns


def row_bytes(curve: Curve) -> int:
    """A point in affine coordinates."""
    return 8 * curve.degree * curve.field.n_limbs


def _packed_bytes(curve: Curve) -> int:
    return 4 * wide_points.packed_width(curve)
