"""Passes over the values of a constraint system. Reference: `torchzk.ops.values`.

Each reads and writes every word once; memory decides what they take.
"""

# in kernels a tuple grows
# mypy: disable-error-code="assignment, misc"
from __future__ import annotations

import torch
import triton
import triton.language as tl

from torchzk.ops.values import check_at, check_rows_of_products, check_vector
from torchzk.params.fields import FR
from torchzk.triton_kernels import limbs
from torchzk.triton_kernels.launch import launch, planes, shape_on
from torchzk.triton_kernels.variants import field_code_on


# words are read one by one, wherever they start
@triton.jit(do_not_specialize=["n", "x_plane"], do_not_specialize_on_alignment=["x_ptr", "out_ptr"])
def classes_kernel(
    out_ptr,  # [n] uint8
    x_ptr,  # [8, n] int32, words x_plane apart
    n,
    x_plane,
    F: tl.constexpr,
    BLOCK: tl.constexpr,
):
    offs = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    x = limbs.load(x_ptr, tl.cast(x_plane, tl.int64), offs, mask, F)
    one = limbs.constant(F.one, x[0], F)
    kind = tl.where(limbs.is_zero(x, F), 0, tl.where(limbs.equal(x, one, F), 1, 2))
    tl.store(out_ptr + offs, kind.to(tl.uint8), mask=mask)


@triton.jit(
    do_not_specialize=["n", "x_plane", "out_plane"],
    do_not_specialize_on_alignment=["x_ptr", "out_ptr", "index_ptr"],
)
def from_mont_at_kernel(
    out_ptr,  # [8, n] int32, words out_plane apart
    x_ptr,  # [8, m] int32, words x_plane apart; the same as out_ptr if there is no index
    index_ptr,  # [n] int32; anything if there is no index
    n,
    x_plane,
    out_plane,
    INDEXED: tl.constexpr,
    F: tl.constexpr,
    BLOCK: tl.constexpr,
):
    offs = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    at = offs
    if INDEXED:
        at = tl.load(index_ptr + offs, mask=mask, other=0).to(tl.int64)
    x = limbs.load(x_ptr, tl.cast(x_plane, tl.int64), at, mask, F)
    # a product with the plain integer 1 takes one R out
    unit = ()
    W: tl.constexpr = F.W
    for i in tl.static_range(W):
        unit = unit + (tl.full(x[0].shape, 1 if i == 0 else 0, tl.uint32),)
    limbs.store(out_ptr, tl.cast(out_plane, tl.int64), offs, mask, limbs.mul(unit, x, F), F)


@triton.jit(
    do_not_specialize=["n", "a_plane", "b_plane", "c_plane"],
    do_not_specialize_on_alignment=["a_ptr", "b_ptr", "c_ptr"],
)
def first_unsatisfied_kernel(
    first_ptr,  # [] int64: n, lowered to the first row in which a b is not c
    a_ptr,  # [8, n] int32, words a_plane apart
    b_ptr,  # [8, n] int32, words b_plane apart
    c_ptr,  # [8, n] int32, words c_plane apart
    n,
    a_plane,
    b_plane,
    c_plane,
    F: tl.constexpr,
    BLOCK: tl.constexpr,
):
    offs = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    a = limbs.load(a_ptr, tl.cast(a_plane, tl.int64), offs, mask, F)
    b = limbs.load(b_ptr, tl.cast(b_plane, tl.int64), offs, mask, F)
    c = limbs.load(c_ptr, tl.cast(c_plane, tl.int64), offs, mask, F)
    holds = limbs.equal(limbs.mul(a, b, F), c, F)
    # lanes beyond the last row have 0 * 0 = 0
    first = tl.min(tl.where(holds, tl.cast(n, tl.int64), offs), 0)
    if first < n:
        tl.atomic_min(first_ptr, first)


def classes(x: torch.Tensor) -> torch.Tensor:
    """As `torchzk.ops.values.classes`, bit for bit."""
    check_vector(x)
    x, x_plane = planes(x)
    n = x.shape[1]
    out = torch.empty(n, dtype=torch.uint8, device=x.device)
    shape, code = shape_on(x.device, "values", FR.n_limbs), field_code_on(x.device, FR)
    launch(classes_kernel, n, shape, x.device, out, x, n, x_plane, F=code)
    return out


def from_mont_at(x: torch.Tensor, index: torch.Tensor | None, out: torch.Tensor) -> None:
    """As `torchzk.ops.values.from_mont_at`, bit for bit."""
    check_at(x, index, out)
    x, x_plane = planes(x)
    n = out.shape[1]
    where = x if index is None else index.contiguous()
    shape, code = shape_on(x.device, "values", FR.n_limbs), field_code_on(x.device, FR)
    given = (out, x, where, n, x_plane, out.stride(0))
    indexed = index is not None
    launch(from_mont_at_kernel, n, shape, x.device, *given, INDEXED=indexed, F=code)


def first_unsatisfied(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
    """As `torchzk.ops.values.first_unsatisfied`."""
    check_rows_of_products(a, b, c)
    n = a.shape[1]
    first = torch.full((), n, dtype=torch.int64, device=a.device)
    (a, a_plane), (b, b_plane), (c, c_plane) = planes(a), planes(b), planes(c)
    shape, code = shape_on(a.device, "values", FR.n_limbs), field_code_on(a.device, FR)
    given = (first, a, b, c, n, a_plane, b_plane, c_plane)
    launch(first_unsatisfied_kernel, n, shape, a.device, *given, F=code)
    return first
