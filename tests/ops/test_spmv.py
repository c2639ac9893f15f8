"""Sparse products against sums of Python integers."""

from __future__ import annotations

import random
from dataclasses import dataclass

import pytest
import torch

from torchzk.backends import Backend
from torchzk.errors import LayoutError
from torchzk.ops.csr import Csr
from torchzk.ops.layout import pack_mont, unpack_mont
from torchzk.params.fields import FR

P = FR.modulus
Rows = list[list[tuple[int, int]]]


@dataclass(frozen=True)
class Sparse:
    """Rows of (column, coefficient), which judge, beside the same as tensors."""

    rows: Rows
    n_cols: int

    def to(self, device: torch.device) -> Csr:
        starts = [0]
        for row in self.rows:
            starts.append(starts[-1] + len(row))
        terms = [term for row in self.rows for term in row]
        table = sorted({k for _, k in terms})

        def column(values: list[int]) -> torch.Tensor:
            return torch.tensor(values, dtype=torch.int64, device=device)

        return Csr(
            rows=column(starts),
            cols=column([c for c, _ in terms]),
            coefficients=column([table.index(k) for _, k in terms]),
            table=pack_mont(table, FR, device),
            n_cols=self.n_cols,
        )

    def times(self, z: list[int]) -> list[int]:
        return [sum(k * z[c] for c, k in row) % P for row in self.rows]

    def transposed(self) -> Sparse:
        columns: Rows = [[] for _ in range(self.n_cols)]
        for i, row in enumerate(self.rows):
            for c, k in row:
                columns[c].append((i, k))
        return Sparse(columns, len(self.rows))


def sample(lengths: list[int], n_cols: int, coefficients: list[int]) -> Sparse:
    rng = random.Random(len(lengths))
    rows = [
        [(c, rng.choice(coefficients)) for c in sorted(rng.sample(range(n_cols), n))]
        for n in lengths
    ]
    return Sparse(rows, n_cols)


MIXED = [1, P - 1, 1, 2, P - 2, 1 << 200, P // 2]
CASES = {
    "empty-rows-everywhere": sample([0, 0, 3, 0, 1, 20, 0, 0], 20, MIXED),
    "units-alone": sample([2, 5, 0, 9], 9, [1, P - 1]),
    "no-units": sample([2, 5, 0, 9], 9, [3, P - 3]),
    "wide": sample([1, 300, 2, 299, 0, 300], 300, MIXED),
    "no-terms": Sparse([[], []], 3),
    "no-rows": Sparse([], 3),
}


def vectors(n: int, k: int) -> list[list[int]]:
    """k vectors of n, edge cases first."""
    rng = random.Random(k)
    return [[P - 1, 0, *(rng.randrange(P) for _ in range(n))][:n] for _ in range(k)]


def planes(z: list[list[int]], device: torch.device) -> torch.Tensor:
    return torch.stack([pack_mont(x, FR, device) for x in z], dim=2)


def copies(x: torch.Tensor) -> list[list[int]]:
    return [unpack_mont(x[:, :, i], FR) for i in range(x.shape[2])]


@pytest.mark.parametrize("matrix", CASES.values(), ids=CASES)
@pytest.mark.parametrize("k", [1, 3])
def test_products(backend: Backend, device: torch.device, matrix: Sparse, k: int) -> None:
    z = vectors(matrix.n_cols, k)
    got = backend.spmv(matrix.to(device), planes(z, device))
    assert copies(got) == [matrix.times(x) for x in z]


@pytest.mark.parametrize("matrix", CASES.values(), ids=CASES)
@pytest.mark.parametrize("k", [1, 3])
def test_transposed_products(
    backend: Backend, device: torch.device, matrix: Sparse, k: int
) -> None:
    y = vectors(len(matrix.rows), k)
    got = backend.spmv_transposed(matrix.to(device), planes(y, device))
    assert copies(got) == [matrix.transposed().times(x) for x in y]


def test_one_vector_needs_no_axis(backend: Backend, device: torch.device) -> None:
    matrix = CASES["wide"]
    z = vectors(matrix.n_cols, 1)
    got = backend.spmv(matrix.to(device), pack_mont(z[0], FR, device))
    assert unpack_mont(got, FR) == matrix.times(z[0])


def test_no_copies(backend: Backend, device: torch.device) -> None:
    matrix = CASES["wide"]
    z = torch.zeros(8, matrix.n_cols, 0, dtype=torch.int32, device=device)
    assert backend.spmv(matrix.to(device), z).shape == (8, len(matrix.rows), 0)


def test_rows_longer_than_a_piece(backend: Backend, device: torch.device) -> None:
    """With so many copies a piece holds three terms: rows span pieces, start and end in them."""
    matrix, k = sample([2, 7, 0, 1, 3, 8, 0], 9, MIXED), 5000
    few = vectors(matrix.n_cols, 4)
    z = planes(few, device).repeat(1, 1, k // 4)
    got = backend.spmv(matrix.to(device), z)
    assert copies(got[:, :, :4]) == [matrix.times(x) for x in few]
    assert torch.equal(got, got[:, :, :4].repeat(1, 1, k // 4))


def test_dense_row(backend: Backend, device: torch.device) -> None:
    n = 70_000
    matrix = Sparse([[(0, 5)], [(c, MIXED[c % 7]) for c in range(n)], [(n - 1, 1)]], n)
    z = vectors(n, 1)[0]
    got = backend.spmv(matrix.to(device), pack_mont(z, FR, device))
    assert unpack_mont(got, FR) == matrix.times(z)


def test_wrong_shapes_are_refused(backend: Backend, device: torch.device) -> None:
    matrix = CASES["wide"].to(device)
    z = torch.zeros(8, 299, dtype=torch.int32, device=device)
    with pytest.raises(LayoutError, match="300 columns"):
        backend.spmv(matrix, z)
    with pytest.raises(LayoutError, match="6 columns"):
        backend.spmv_transposed(matrix, z)
    with pytest.raises(LayoutError, match="int32"):
        backend.spmv(matrix, torch.zeros(8, 300, device=device))
