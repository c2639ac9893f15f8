"""Sparse products in both variants, by the reference's own cases: interpreted, or on a GPU."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from ops.test_spmv import CASES, MIXED, Sparse, copies, planes, sample, vectors
from ops.test_spmv_copies import CASES as BLOCKS
from ops.test_spmv_copies import Blocks
from torchzk.errors import LayoutError
from torchzk.ops.layout import pack_mont, unpack_mont
from torchzk.params.fields import FR
from torchzk.triton_kernels import spmv_code
from torchzk.triton_kernels.spmv import WARP, spmv, spmv_copies, spmv_transposed
from torchzk.triton_kernels.spmv_code import SHORT, Cut, Prepared, prepared

pytestmark = pytest.mark.usefixtures("variant")
AROUND = {
    **{
        f"{n} rows": sample([i % 4 for i in range(n)], 9, MIXED) for n in (WARP - 1, WARP, WARP + 1)
    },
    "either side of what one lane does": sample(
        [SHORT + 1, SHORT, 0, 2 * WARP, 2 * WARP + 1, SHORT - 1], 2 * WARP + 1, MIXED
    ),
    "one row": sample([3], 4, [5]),
}
MATRICES = CASES | AROUND
# the interpreter takes ten times as long for plain code, which is the same but for products
ptx = pytest.mark.parametrize("variant", ["ptx"], indirect=True)


@ptx
@pytest.mark.parametrize("matrix", MATRICES.values(), ids=MATRICES)
def test_products(device: torch.device, matrix: Sparse) -> None:
    csr = matrix.to(device)
    for k in (1, 3):
        z = vectors(matrix.n_cols, k)
        got = spmv(csr, planes(z, device))
        assert copies(got) == [matrix.times(x) for x in z]


def test_one_vector_needs_no_axis(device: torch.device) -> None:
    """Rows of both kinds."""
    matrix = sample([2, 0, SHORT + 1, 1], 40, MIXED)
    (z,) = vectors(matrix.n_cols, 1)
    got = spmv(matrix.to(device), pack_mont(z, FR, device))
    assert unpack_mont(got, FR) == matrix.times(z)


@ptx
@pytest.mark.parametrize("name", ["empty-rows-everywhere", "no-terms", "no-rows", "32 rows"])
def test_transposed_products(device: torch.device, name: str) -> None:
    matrix = MATRICES[name]
    csr = matrix.to(device)
    for k in (1, 2):
        y = vectors(len(matrix.rows), k)
        got = spmv_transposed(csr, planes(y, device))
        assert copies(got) == [matrix.transposed().times(x) for x in y]


@ptx
def test_vectors_are_read_where_they_lie(device: torch.device) -> None:
    matrix = CASES["empty-rows-everywhere"]
    z = vectors(3 * matrix.n_cols, 2)
    whole = planes(z, device)
    every_third = spmv(matrix.to(device), whole[:, 1::3])
    assert copies(every_third) == [matrix.times(x[1::3]) for x in z]
    middle = spmv(matrix.to(device), whole[:, 7:27, 1])
    assert unpack_mont(middle, FR) == matrix.times(z[1][7:27])


@ptx
@pytest.mark.parametrize("blocks", BLOCKS.values(), ids=BLOCKS)
def test_copies(device: torch.device, blocks: Blocks) -> None:
    s = blocks.sample(device)
    rows = blocks.copies * blocks.rows
    whole = torch.full((8, rows + 9), 77, dtype=torch.int32, device=device)
    spmv_copies(s.matrix, s.copies, s.inputs, s.aux, whole[:, 4 : rows + 4])
    assert unpack_mont(whole[:, 4 : rows + 4], FR) == [v for copy in s.expected for v in copy]
    assert bool((whole[:, :4] == 77).all()) and bool((whole[:, rows + 4 :] == 77).all())


@ptx
@pytest.mark.parametrize("longest", [3, 7])
def test_long_rows_are_cut(
    device: torch.device, monkeypatch: pytest.MonkeyPatch, longest: int
) -> None:
    # 3: sums of pieces are cut again
    monkeypatch.setattr(spmv_code, "LONGEST", longest)
    s = BLOCKS["all-kinds"].sample(device)
    assert isinstance(prepared(s.matrix), Cut)
    out = torch.empty(8, 2 * s.matrix.n_rows, dtype=torch.int32, device=device)
    spmv_copies(s.matrix, replace(s.copies, first=2, last=4), s.inputs, s.aux, out)
    assert unpack_mont(out, FR) == s.expected[2] + s.expected[3]


@ptx
def test_rows_are_in_order_of_length_within_a_window(
    device: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spmv_code, "WINDOW", 4)
    matrix = sample([2, 0, 40, 1, 1, 33, 0, 0, 5], 40, MIXED).to(device)
    form = prepared(matrix)
    assert isinstance(form, Prepared) and prepared(matrix) is form
    assert form.short.tolist() == [1, 3, 0, 6, 7, 4, 8]
    assert form.long.tolist() == [2, 5]
    assert {form.short.dtype, form.cols.dtype, form.ids.dtype} == {torch.int32}


@ptx
def test_wrong_shapes_are_refused(device: torch.device) -> None:
    matrix = CASES["wide"].to(device)
    z = torch.zeros(8, 299, dtype=torch.int32, device=device)
    with pytest.raises(LayoutError, match="300 columns"):
        spmv(matrix, z)
    with pytest.raises(LayoutError, match="6 columns"):
        spmv_transposed(matrix, z)
    with pytest.raises(LayoutError, match="int32"):
        spmv(matrix, torch.zeros(8, 300, device=device))
    with pytest.raises(LayoutError, match="on meta"):
        spmv(matrix, torch.zeros(8, 300, dtype=torch.int32, device="meta"))
