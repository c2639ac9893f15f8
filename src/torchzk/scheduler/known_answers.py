"""Known answers: every kind of operation of a backend, on a device, against Python integers.

Takes about a second, and longer where kernels have to be compiled first. A device or a compiler
that computes wrongly is found here, before a proof is.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch

from torchzk.backends import Backend
from torchzk.ops.csr import Copies, Csr
from torchzk.ops.layout import (
    ONE,
    OTHER,
    ZERO,
    pack,
    pack_mont,
    points_to_rows,
    rows_to_points,
    unpack,
    unpack_mont,
)
from torchzk.params import integers
from torchzk.params.curves import CURVES, Curve
from torchzk.params.domains import Domain
from torchzk.params.fields import FIELDS, FR, PrimeField
from torchzk.params.poseidon import Poseidon


@dataclass(frozen=True)
class Answer:
    """One operation: whether it gave the known answer, and how long it took."""

    operation: str
    right: bool
    milliseconds: float


def known_answers(backend: Backend, device: torch.device) -> list[Answer]:
    """Ask `backend` for a few answers of each kind on `device`."""
    answers = []
    for operation, ask, expected in _questions(backend, device):
        start = time.perf_counter()
        right = ask() == expected
        answers.append(Answer(operation, right, (time.perf_counter() - start) * 1000))
    return answers


_Question = tuple[str, Callable[[], object], object]


def _questions(backend: Backend, device: torch.device) -> Iterator[_Question]:
    for field in FIELDS.values():
        yield from _field(backend, device, field)
    for curve in CURVES.values():
        yield from _curve(backend, device, curve)
    yield from _transforms(backend, device)
    yield from _matrix(backend, device)
    yield from _values(backend, device)
    for arity in (2, 8):
        yield _poseidon(backend, device, arity)
    yield _sha256(backend, device)


def _field(backend: Backend, device: torch.device, field: PrimeField) -> Iterator[_Question]:
    p = field.modulus
    # 0, 1 and p - 1; a lowest limb that is full; a carry through every limb
    x = [0, 1, p - 1, (1 << 32) - 1, (1 << p.bit_length() - 1) - 1, p // 3]
    y = x[::-1]
    a, b = pack_mont(x, field, device), pack_mont(y, field, device)

    def product() -> object:
        return unpack_mont(backend.mont_mul(a, b, field), field)

    def inverse() -> object:
        return unpack_mont(backend.batch_inverse(a, field), field)

    yield f"{field.name} product", product, [u * v % p for u, v in zip(x, y, strict=True)]
    yield f"{field.name} inverse", inverse, [pow(v, -1, p) if v else 0 for v in x]


def _curve(backend: Backend, device: torch.device, curve: Curve) -> Iterator[_Question]:
    g = curve.generator
    two, three = (integers.mul(curve, k, g) for k in (2, 3))
    # a sum, a doubling, opposite points, and infinity on either side
    left, right = [g, g, g, None, g], [two, g, integers.neg(curve, g), two, None]
    p, q = points_to_rows(left, curve, device), points_to_rows(right, curve, device)
    scalars = [FR.modulus - 1, 0, 1 << 200, 5, 1]
    total = sum(k for k, point in zip(scalars, left, strict=True) if point) % FR.modulus

    def addition() -> object:
        return rows_to_points(backend.add_affine(p, q, curve), curve)

    def msm() -> object:
        return backend.msm(pack(scalars, FR, device), p, curve)

    def sums() -> object:
        return backend.bit_sums(pack(short, FR, device), q, curve, 3)

    def multiples() -> object:
        return rows_to_points(backend.fixed_base(pack(few, FR, device), g, curve), curve)

    short, few = [6, 5, 4, 3, 2], [0, 1, FR.modulus - 1]
    # `right` as multiples of g, by the bits of the scalars
    chosen = [(k, m) for k, m in zip(short, (2, 1, -1, 2, 0), strict=True)]
    by_bit = [sum(m for k, m in chosen if k >> bit & 1) for bit in range(3)]
    yield f"{curve.name} addition", addition, [three, two, None, two, g]
    yield f"{curve.name} multi-scalar product", msm, integers.mul(curve, total, g)
    yield f"{curve.name} sum", lambda: backend.batch_add(q, None, curve), integers.mul(curve, 4, g)
    yield f"{curve.name} bit sums", sums, [integers.mul(curve, m, g) for m in by_bit]
    yield f"{curve.name} multiples", multiples, [None, g, integers.neg(curve, g)]


def _transforms(backend: Backend, device: torch.device) -> Iterator[_Question]:
    # few terms of many elements, so that there are passes of every kind
    domain, r = Domain(12), FR.modulus
    n = domain.size
    x, y = {0: 5, 1: r - 1, n // 2 + 1: 3, n - 1: r - 7}, {3: 1 << 200, n - 2: r - 5, n - 1: 11}
    powers = [1]
    while len(powers) < n:
        powers.append(powers[-1] * domain.omega % r)

    def values(polynomial: dict[int, int]) -> list[int]:
        terms = polynomial.items()
        return [sum(v * powers[i * k % n] for i, v in terms) % r for k in range(n)]

    def transform() -> object:
        dense = [x.get(i, 0) for i in range(n)]
        return unpack(backend.ntt(pack(dense, FR, device), domain))

    def quotient() -> object:
        products = [u * v % r for u, v in zip(values(x), values(y), strict=True)]
        a, b, c = (pack_mont(v, FR, device) for v in (values(x), values(y), products))
        return unpack_mont(backend.quotient(a, b, c, domain), FR)

    # x y = low + X^n high, and c agrees with low + high, so that x y - c = (X^n - 1) high
    high = [0] * n
    for i, u in x.items():
        for j, v in y.items():
            if i + j >= n:
                high[i + j - n] = (high[i + j - n] + u * v) % r
    yield "transform", transform, values(x)
    yield "quotient", quotient, high


def _matrix(backend: Backend, device: torch.device) -> Iterator[_Question]:
    r = FR.modulus
    # by row the columns of its terms, and for each which coefficient of the table
    rows, table = [{0: 1, 2: 2}, {}, {1: 1, 2: 0}], [1, r - 1, r // 3]
    index = [[0, 2, 2, 4], [0, 2, 1, 2], [1, 2, 1, 0]]
    starts, cols, coefficients = (torch.tensor(v, device=device) for v in index)
    matrix = Csr(starts, cols, coefficients, pack_mont(table, FR, device), 3)
    x = [3, r - 2, 1 << 200]
    z = pack_mont(x, FR, device)
    by_row = [sum(table[k] * x[col] for col, k in row.items()) % r for row in rows]
    by_column = [
        sum(table[row[col]] * x[j] for j, row in enumerate(rows) if col in row) % r
        for col in range(3)
    ]
    yield "matrix by vector", lambda: unpack_mont(backend.spmv(matrix, z), FR), by_row

    def transposed() -> object:
        return unpack_mont(backend.spmv_transposed(matrix, z), FR)

    yield "transposed matrix by vector", transposed, by_column

    def copied() -> object:
        # a vector is the one input and two of the aux
        copies = Copies(1, 0, 0, 2, torch.zeros(2, 0, dtype=torch.int64, device=device), 0, 2)
        aux = torch.cat((z[:, 1:], z[:, 1:]), dim=1)
        out = torch.empty(8, 6, dtype=torch.int32, device=device)
        backend.spmv_copies(matrix, copies, z[:, :1].contiguous(), aux, out)
        return unpack_mont(out, FR)

    yield "matrix by copies", copied, by_row * 2


def _values(backend: Backend, device: torch.device) -> Iterator[_Question]:
    p = FR.modulus
    # of 1 in Montgomery form too, and what has its words
    x = [0, 1, FR.r_inv, p - 1, 1 << 200]
    values = pack_mont(x, FR, device)
    index = torch.tensor([4, 3, 1, 1, 0], dtype=torch.int32, device=device)

    def canonical() -> object:
        out = torch.empty(8, len(index), dtype=torch.int32, device=device)
        backend.from_mont_at(values, index, out)
        return unpack(out)

    def row() -> object:
        squares = pack_mont([v * v % p for v in x[:3]] + [2, 3], FR, device)
        return int(backend.first_unsatisfied(values, values, squares))

    yield "classes of values", lambda: backend.classes(values).tolist(), [ZERO, ONE, *[OTHER] * 3]
    yield "canonical values", canonical, [1 << 200, p - 1, 1, 1, 0]
    yield "first unsatisfied row", row, 3


def _poseidon(backend: Backend, device: torch.device, arity: int) -> _Question:
    instance = Poseidon.merkle(arity)
    x = [FR.modulus - 1 - i for i in range(arity)]

    def digest() -> object:
        inputs = pack_mont(x, FR, device).unsqueeze(-1)
        return unpack_mont(backend.poseidon(inputs, instance), FR)

    return f"Poseidon of arity {arity}", digest, [instance.digest(x)]


def _sha256(backend: Backend, device: torch.device) -> _Question:
    message = bytes(range(100))
    tensor = torch.tensor([list(message)], dtype=torch.uint8, device=device)
    expected = list(hashlib.sha256(message).digest())
    return "SHA-256", lambda: backend.sha256(tensor)[0].tolist(), expected
