"""What the kernels' operations take of a device's memory, in bytes, as functions of sizes alone.

Each figure is the peak beside the arguments, the result included. It follows what the operation
allocates, line by line; `tests/scheduler/plan_against_peak.py` compares with a GPU. Tuned numbers
are those of `tuning.DEFAULT_ARCH`, as no architecture has others that matter here.
"""

from __future__ import annotations

from functools import lru_cache

import torch

from torchzk.params.curves import Curve
from torchzk.params.domains import Domain
from torchzk.params.fields import FP, FR
from torchzk.triton_kernels.fixed_base import _PIECE, windows_of
from torchzk.triton_kernels.launch import number_on, shape_on
from torchzk.triton_kernels.msm import Cut, cut
from torchzk.triton_kernels.pair_sums import _lanes
from torchzk.triton_kernels.quotient import quotient_bytes as one_quotient_bytes
from torchzk.triton_kernels.quotient import tables_bytes as roots_bytes
from torchzk.triton_kernels.quotient import vector_bytes
from torchzk.triton_kernels.quotient_in_turn import held_in_turn_bytes as held_in_turn_bytes
from torchzk.triton_kernels.quotient_in_turn import (
    quotient_in_turn_bytes as quotient_in_turn_bytes,
)
from torchzk.triton_kernels.spmv_code import LONGEST

_PIECES = 32 << 20
_DEFAULT = torch.device("cpu")
_FULL = ((FR.modulus >> 224) + 1) << 224
"""What `scalar_bound` finds for scalars of any size."""
_SORTED = 36
"""Bytes an entry while keys of 4 bytes are sorted with indices of 8: both twice, the indices that
they start from, and the sort's own copies."""


def pieces_bytes(*, on_cpu: bool) -> int:
    """Constants, small tensors, the ends of the allocator's blocks: what no size changes."""
    return _PIECES


def msm_bytes(n: int, curve: Curve, limit_bytes: int) -> int:
    """`msm` of `n` full scalars; what it takes stays below the limit, and may be far below it.

    The model is that of even digits: of so many labels half lose a half to rounding up. How many
    do is left to chance, for which there is one part in 256.
    """
    if n == 0:
        return 0
    form = _cut(n, curve, limit_bytes)
    # sums by bit of the windows and pieces before
    kept = 2 * row_bytes(curve) * (form.windows.bits + 2) * form.windows.count
    most = form.points + max(_group_bytes(form, curve), _reduced_bytes(form, curve))
    return most + most // 256 + kept * -(-n // form.points)


def msm_window_bytes(n: int, curve: Curve) -> int:
    """The least limit with which `msm` does not cut `n` points in pieces: one window at a time."""
    form = _cut(n, curve, 1 << 62)
    return form.points + form.window_bytes(curve)


def msm_limit(n: int, curve: Curve, limit_bytes: int) -> int:
    """The least limit with which `msm` of `n` points does what it does with this one."""
    form = _cut(n, curve, limit_bytes)
    group = min(form.group, form.windows.count)
    return min(limit_bytes, form.points + group * form.window_bytes(curve))


def quotient_bytes(domain: Domain) -> int:
    """`quotient`; that of a short one by graphs is in none of the vectors they work in."""
    graph = vector_bytes(domain) if _graphed(domain) else 0
    return one_quotient_bytes(domain) + graph


def tables_bytes(domain: Domain, *, in_turn: bool) -> int:
    """What stays on the device after `quotient` or `quotient_in_turn`: tables, and short graphs."""
    if in_turn:
        return held_in_turn_bytes(domain) - vector_bytes(domain)
    graph = 3 * vector_bytes(domain) if _graphed(domain) else 0
    return roots_bytes(domain.log_n) + graph


def batch_add_bytes(n: int, curve: Curve) -> int:
    """`batch_add` of `n` points that a mask chooses, the mask not counted.

    Their indices in 64 bits and in 32, and the first round of pairs; or the second, in which the
    sums of the first are there.
    """
    first = 12 * n + _pairs_bytes(-(-n // 2), curve)
    second = row_bytes(curve) * -(-n // 2) + _pairs_bytes(-(-n // 4), curve)
    return max(first, second)


def fixed_base_bytes(n: int, curve: Curve) -> int:
    """`fixed_base` of `n` scalars: the result, and a piece's digits as keys and rounds of pairs."""
    windows = windows_of(n, _FULL, _DEFAULT)
    # and infinity
    table = row_bytes(curve) * (windows.count * windows.sizes + 1)
    piece = min(n, _PIECE)
    first = -(-windows.count // 2)
    second = -(-first // 2)
    # keys, and those with their signs, stay
    keys = 2 * 4 * piece * windows.count
    # in the second round the sums of the first are there, and their indices
    sums = 4 * piece * (first + 1) + _sums_bytes(piece * first, curve)
    rounds = keys + max(
        keys + _pairs_bytes(piece * first, curve),
        sums + _pairs_bytes(piece * second, curve),
    )
    return n * row_bytes(curve) + max(3 * table, table + piece + rounds)


def classes_bytes(n: int) -> int:
    """`classes` of `n` values."""
    return n


def matrix_bytes(rows: int, terms: int, coefficients: int) -> int:
    """A matrix on the device once it was multiplied by: `Csr`, and `Prepared` beside it."""
    csr = 8 * (rows + 1) + 16 * terms + 32 * coefficients
    return csr + 4 * (rows + 1) + 8 * terms + 4 * rows + 32 * (coefficients + 3)


def preparing_bytes(rows: int, terms: int, coefficients: int) -> int:
    """More than `matrix_bytes`, while a matrix is made ready: indices in 64 bits, and a sort."""
    return max(8 * terms, 8 * rows * 3 + _SORTED * rows)


def spmv_bytes(rows: int, longest: int) -> int:
    """`spmv_copies` for `rows` rows of all copies: nothing, unless a row is long enough to cut."""
    return 32 * rows if longest > LONGEST else 0


def transposed_bytes(rows: int, terms: int, columns: int) -> int:
    """The transposed matrix that `spmv_transposed` keeps, ready to multiply by, in the making."""
    return matrix_bytes(columns, terms, 0) + 8 * (2 * terms + 2 * columns) + _SORTED * terms


def row_bytes(curve: Curve) -> int:
    """A point in affine coordinates."""
    return 8 * curve.degree * curve.field.n_limbs


@lru_cache(maxsize=1 << 12)
def _cut(n: int, curve: Curve, limit_bytes: int) -> Cut:
    return cut(n, _FULL, curve, limit_bytes, _DEFAULT)


def _graphed(domain: Domain) -> bool:
    return bool(number_on(_DEFAULT, "ntt graph", FR.n_limbs, domain.log_n))


def _group_bytes(form: Cut, curve: Curve) -> int:
    """While the windows of a group are sorted, and in the rounds of pairs.

    In the second round there are the sums of the first, those of the second with the prefixes,
    their labels, and the names of the pairs. For a label: its sum, a count and two starts.
    """
    group = min(form.group, form.windows.count)
    entries, labels = group * form.points, group * form.windows.most_sizes
    point, own = row_bytes(curve), (row_bytes(curve) + 16) * labels
    sizes = [entries / (1 << k) + labels * (1 - 1 / (1 << k)) / 2 for k in range(3)]
    sizes[0] = entries
    # pairs of a round, and points that it copies
    (one, few), (two, fewer) = (
        (round(sizes[k] - sizes[k + 1]), round(2 * sizes[k + 1] - sizes[k])) for k in (0, 1)
    )
    first = 12 * one + (8 + point) * few + _pairs_bytes(one, curve)
    second = point * sizes[1] + 12 * two + (8 + point) * fewer + _pairs_bytes(two, curve)
    sort = _SORTED * entries
    named = (4 + 8 + 8 / 2 + 4 / 2) * entries
    return round(max(sort, own + max(named, first, second)))


def _reduced_bytes(form: Cut, curve: Curve) -> int:
    """While sums take their places, and while they are added by the bits of their labels."""
    point = row_bytes(curve)
    labels = min(form.group, form.windows.count) * form.windows.most_sizes
    run = number_on(_DEFAULT, "points of a lane", FP.n_limbs)
    # of rows and of columns at once, each level a run shorter than the one before
    return labels * max(2 * point + 24, point + 2 * (2 * point) // (run - 1))


def _sums_bytes(n: int, curve: Curve) -> int:
    """What `add_pairs` of `n` returns: as many rows as all lanes have."""
    per_lane, lanes = _lanes(n, _DEFAULT)
    return row_bytes(curve) * per_lane * lanes


def _pairs_bytes(n: int, curve: Curve) -> int:
    """`add_pairs` of `n`: sums, prefixes, the lanes' products and what inverts them, and flags."""
    per_lane, lanes = _lanes(n, _DEFAULT)
    sums = _sums_bytes(n, curve)
    if per_lane == 1:
        return sums
    element = row_bytes(curve) // 2
    flags = per_lane * lanes // shape_on(_DEFAULT, "pairs", FP.n_limbs).block
    return sums + element * (per_lane + 1) * lanes + _inverses_bytes(lanes, element) + flags


def _inverses_bytes(n: int, element: int) -> int:
    """The inverses of `n` products: their prefixes and products, and those of the lanes inside."""
    per_lane, lanes = _lanes(n, _DEFAULT)
    if per_lane == 1 or n <= number_on(_DEFAULT, "inverted alone", FP.n_limbs):
        return element * n
    prefixes = element * per_lane * lanes
    return (
        prefixes
        + element * lanes
        + max(_inverses_bytes(lanes, element), element * lanes + prefixes)
    )
