"""Arithmetic in Fp2 = Fp[u] / (u^2 + 1) over `[2, L, *batch]`. Reference: `torchzk.ops.fp2`."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from torchzk.errors import LayoutError
from torchzk.ops.layout import check_limbs
from torchzk.params.fields import PrimeField
from torchzk.triton_kernels import elementwise, inverse, limbs
from torchzk.triton_kernels.launch import flat, launch, planes, shape_on
from torchzk.triton_kernels.variants import field_code_on


def fp2_add(a: torch.Tensor, b: torch.Tensor, field: PrimeField) -> torch.Tensor:
    """As `torchzk.ops.fp2.fp2_add`, bit for bit."""
    return _binary("add", a, b, field)


def fp2_sub(a: torch.Tensor, b: torch.Tensor, field: PrimeField) -> torch.Tensor:
    """As `torchzk.ops.fp2.fp2_sub`, bit for bit."""
    return _binary("sub", a, b, field)


def fp2_neg(a: torch.Tensor, field: PrimeField) -> torch.Tensor:
    """As `torchzk.ops.fp2.fp2_neg`, bit for bit."""
    return _unary("neg", a, field)


def fp2_mul(a: torch.Tensor, b: torch.Tensor, field: PrimeField) -> torch.Tensor:
    """As `torchzk.ops.fp2.fp2_mul`, bit for bit."""
    return _binary("mul", a, b, field)


def fp2_sqr(a: torch.Tensor, field: PrimeField) -> torch.Tensor:
    """As `torchzk.ops.fp2.fp2_sqr`, bit for bit."""
    return _unary("sqr", a, field)


def fp2_batch_inverse(a: torch.Tensor, field: PrimeField) -> torch.Tensor:
    """As `torchzk.ops.fp2.fp2_batch_inverse`, bit for bit: conj(a) / (c0^2 + c1^2)."""
    _check(field, a)
    code = field_code_on(a.device, field, 2)
    x, x_plane = planes(flat(a, code.W))
    n = x.shape[1]
    norm = torch.empty((code.L, n), dtype=a.dtype, device=a.device)
    out = torch.empty((code.W, n), dtype=a.dtype, device=a.device)
    shape = shape_on(a.device, "elementwise", code.L)
    launch(norm_kernel, n, shape, a.device, norm, x, n, x_plane, F=code)
    norm = inverse.inverse(norm, code.prime)
    launch(conjugate_kernel, n, shape, a.device, out, x, norm, n, x_plane, F=code)
    return out.view(a.shape)


@triton.jit(do_not_specialize=["n", "a_plane"], do_not_specialize_on_alignment=["a_ptr"])
def norm_kernel(
    out_ptr,  # [L, n] int32: c0^2 + c1^2
    a_ptr,  # [2 L, n] int32, words a_plane apart
    n,
    a_plane,
    F: tl.constexpr,
    BLOCK: tl.constexpr,
):
    offs = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    P: tl.constexpr = F.prime
    a = limbs.load(a_ptr, tl.cast(a_plane, tl.int64), offs, mask, F)
    norm = limbs.add(limbs.sqr(limbs.c0(a, F), P), limbs.sqr(limbs.c1(a, F), P), P)
    limbs.store(out_ptr, tl.cast(n, tl.int64), offs, mask, norm, P)


@triton.jit(do_not_specialize=["n", "a_plane"], do_not_specialize_on_alignment=["a_ptr"])
def conjugate_kernel(
    out_ptr,  # [2 L, n] int32: s (c0 - c1 u)
    a_ptr,  # [2 L, n] int32, words a_plane apart
    s_ptr,  # [L, n] int32
    n,
    a_plane,
    F: tl.constexpr,
    BLOCK: tl.constexpr,
):
    offs = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    plane = tl.cast(n, tl.int64)
    P: tl.constexpr = F.prime
    a = limbs.load(a_ptr, tl.cast(a_plane, tl.int64), offs, mask, F)
    s = limbs.load(s_ptr, plane, offs, mask, P)
    x = limbs.mul(limbs.c0(a, F), s, P) + limbs.mul(limbs.neg(limbs.c1(a, F), P), s, P)
    limbs.store(out_ptr, plane, offs, mask, x, F)


def _check(field: PrimeField, *xs: torch.Tensor) -> None:
    for x in xs:
        if x.ndim < 3 or x.shape[0] != 2 or x.shape != xs[0].shape or x.device != xs[0].device:
            raise LayoutError(f"Fp2 operands are [2, L, *batch] of one shape, got {list(x.shape)}")
        check_limbs(x[0], field)


def _unary(op: elementwise.Unary, a: torch.Tensor, field: PrimeField) -> torch.Tensor:
    _check(field, a)
    code = field_code_on(a.device, field, 2)
    return elementwise.unary(op, flat(a, code.W), code).view(a.shape)


def _binary(
    op: elementwise.Binary, a: torch.Tensor, b: torch.Tensor, field: PrimeField
) -> torch.Tensor:
    _check(field, a, b)
    code = field_code_on(a.device, field, 2)
    return elementwise.binary(op, flat(a, code.W), flat(b, code.W), code).view(a.shape)
