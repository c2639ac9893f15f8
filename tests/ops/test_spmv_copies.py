"""Products of a block's matrix with its copies against sums of Python integers."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

import pytest
import torch

from torchzk.backends import Backend
from torchzk.errors import LayoutError
from torchzk.ops.csr import Copies, Csr
from torchzk.ops.layout import pack_mont, unpack_mont
from torchzk.params.fields import FR

P = FR.modulus


@dataclass(frozen=True)
class Blocks:
    """Copies of a block of `rows` rows: sizes in the order of its variable vector."""

    shared_inputs: int
    inputs: int
    shared_aux: int
    imports: int
    aux: int
    copies: int
    rows: int = 40

    def sample(self, device: torch.device) -> Sample:
        rng = random.Random(f"{self}")
        n_cols = self.shared_inputs + self.inputs + self.shared_aux + self.imports + self.aux
        lengths = [rng.choice([0, 1, 2, 3, n_cols]) for _ in range(self.rows)]
        table = [1, P - 1, 2, P - 2, rng.randrange(P)]
        terms = [
            [(c, rng.randrange(len(table))) for c in sorted(rng.sample(range(n_cols), n))]
            for n in lengths
        ]
        inputs = [rng.randrange(P) for _ in range(self.shared_inputs + self.copies * self.inputs)]
        aux = [rng.randrange(P) for _ in range(self.shared_aux + self.copies * self.aux)]
        imports = [
            [rng.randrange(len(aux)) for _ in range(self.imports)] for _ in range(self.copies)
        ]
        starts = [0]
        for row in terms:
            starts.append(starts[-1] + len(row))

        def index(values: list[int]) -> torch.Tensor:
            return torch.tensor(values, dtype=torch.int64, device=device)

        matrix = Csr(
            rows=index(starts),
            cols=index([c for row in terms for c, _ in row]),
            coefficients=index([k for row in terms for _, k in row]),
            table=pack_mont(table, FR, device),
            n_cols=n_cols,
        )
        copies = Copies(
            n_shared_inputs=self.shared_inputs,
            n_inputs=self.inputs,
            n_shared_aux=self.shared_aux,
            n_aux=self.aux,
            imports=index([i for row in imports for i in row]).view(self.copies, self.imports),
            first=0,
            last=self.copies,
        )
        expected = []
        for k in range(self.copies):
            own = self.shared_inputs + k * self.inputs
            own_aux = self.shared_aux + k * self.aux
            z = inputs[: self.shared_inputs] + inputs[own : own + self.inputs]
            z += aux[: self.shared_aux] + [aux[i] for i in imports[k]]
            z += aux[own_aux : own_aux + self.aux]
            expected.append([sum(table[i] * z[c] for c, i in row) % P for row in terms])
        planes = (pack_mont(inputs, FR, device), pack_mont(aux, FR, device))
        return Sample(matrix, copies, *planes, expected)


@dataclass(frozen=True)
class Sample:
    matrix: Csr
    copies: Copies
    inputs: torch.Tensor
    aux: torch.Tensor
    expected: list[list[int]]
    """By copy, by row."""


CASES = {
    "all-kinds": Blocks(2, 3, 5, 4, 7, copies=5),
    "no-imports": Blocks(1, 2, 3, 0, 9, copies=3),
    "nothing-shared-but-one": Blocks(1, 0, 0, 0, 6, copies=4),
    "nothing-of-its-own": Blocks(2, 0, 4, 3, 0, copies=3),
    "no-copies": Blocks(1, 1, 1, 1, 1, copies=0),
    "no-rows": Blocks(1, 1, 1, 1, 1, copies=2, rows=0),
}
cases = pytest.mark.parametrize("blocks", CASES.values(), ids=CASES)


@cases
def test_products(backend: Backend, device: torch.device, blocks: Blocks) -> None:
    s = blocks.sample(device)
    rows = blocks.copies * blocks.rows
    # a slice of longer planes, whose other elements stay as they are
    whole = torch.full((8, rows + 9), 77, dtype=torch.int32, device=device)
    backend.spmv_copies(s.matrix, s.copies, s.inputs, s.aux, whole[:, 4 : rows + 4])
    assert unpack_mont(whole[:, 4 : rows + 4], FR) == [v for copy in s.expected for v in copy]
    assert bool((whole[:, :4] == 77).all()) and bool((whole[:, rows + 4 :] == 77).all())


def test_a_range_of_copies(backend: Backend, device: torch.device) -> None:
    s = CASES["all-kinds"].sample(device)
    out = torch.empty(8, 2 * s.matrix.n_rows, dtype=torch.int32, device=device)
    backend.spmv_copies(s.matrix, replace(s.copies, first=2, last=4), s.inputs, s.aux, out)
    assert unpack_mont(out, FR) == s.expected[2] + s.expected[3]


def test_what_does_not_fit_is_refused(backend: Backend, device: torch.device) -> None:
    s = CASES["all-kinds"].sample(device)
    rows = 5 * s.matrix.n_rows
    out = torch.zeros(8, rows, dtype=torch.int32, device=device)

    def refused(match: str, copies: Copies, *planes: torch.Tensor) -> None:
        with pytest.raises(LayoutError, match=match):
            backend.spmv_copies(s.matrix, copies, *planes)

    refused("22 variables", replace(s.copies, n_aux=8), s.inputs, s.aux, out)
    refused("copies 0 to 6 of 5", replace(s.copies, last=6), s.inputs, s.aux, out)
    refused("inputs and aux", s.copies, s.inputs[:, 1:], s.aux, out)
    refused("inputs and aux", s.copies, s.inputs, s.aux[:, 1:], out)
    refused(f"8, {rows}", s.copies, s.inputs, s.aux, out[:, 1:])
    turned = out.t().contiguous().t()
    refused("side by side", s.copies, s.inputs, s.aux, turned)
    refused("int64", replace(s.copies, imports=s.copies.imports.int()), s.inputs, s.aux, out)
