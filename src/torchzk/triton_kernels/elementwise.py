"""Kernels of one element in, one element out, and their launchers for a given `FieldCode`.

The launchers take flat planes, `[W, n]`; what is asked of callers is checked by `field` and `fp2`.
"""

# in kernels a tuple grows
# mypy: disable-error-code="assignment"
from __future__ import annotations

from typing import Literal

import torch
import triton
import triton.language as tl

from torchzk.params.fields import LIMB_BITS, split
from torchzk.triton_kernels import limbs
from torchzk.triton_kernels.code import FieldCode
from torchzk.triton_kernels.launch import launch, planes, shape_on

Unary = Literal["neg", "sqr"]
Binary = Literal["add", "sub", "mul"]


# words are read one by one, so what starts anywhere is no other kernel
@triton.jit(do_not_specialize=["n", "a_plane"], do_not_specialize_on_alignment=["a_ptr"])
def unary_kernel(
    out_ptr,  # [W, n] int32
    a_ptr,  # [W, n] int32, words a_plane apart
    n,
    a_plane,
    OP: tl.constexpr,
    F: tl.constexpr,
    BLOCK: tl.constexpr,
):
    offs = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    a = limbs.load(a_ptr, tl.cast(a_plane, tl.int64), offs, mask, F)
    if OP == "neg":
        x = limbs.neg(a, F)
    else:
        tl.static_assert(OP == "sqr")
        x = limbs.sqr(a, F)
    limbs.store(out_ptr, tl.cast(n, tl.int64), offs, mask, x, F)


@triton.jit(
    do_not_specialize=["n", "a_plane", "b_plane"],
    do_not_specialize_on_alignment=["a_ptr", "b_ptr"],
)
def binary_kernel(
    out_ptr,  # [W, n] int32
    a_ptr,  # [W, n] int32, words a_plane apart
    b_ptr,  # [W, n] int32, words b_plane apart
    n,
    a_plane,
    b_plane,
    OP: tl.constexpr,
    F: tl.constexpr,
    BLOCK: tl.constexpr,
):
    offs = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    a = limbs.load(a_ptr, tl.cast(a_plane, tl.int64), offs, mask, F)
    b = limbs.load(b_ptr, tl.cast(b_plane, tl.int64), offs, mask, F)
    if OP == "add":
        x = limbs.add(a, b, F)
    elif OP == "sub":
        x = limbs.sub(a, b, F)
    else:
        tl.static_assert(OP == "mul")
        x = limbs.mul(a, b, F)
    limbs.store(out_ptr, tl.cast(n, tl.int64), offs, mask, x, F)


_FACTOR = [f"k{i}" for i in range(12)]


@triton.jit(do_not_specialize=["n", "a_plane", *_FACTOR], do_not_specialize_on_alignment=["a_ptr"])
def scale_kernel(
    out_ptr,  # [W, n] int32
    a_ptr,  # [W, n] int32, words a_plane apart, any number of W words
    n,
    a_plane,
    k0,  # the factor in Montgomery form, as int32; words from W on are zero
    k1,
    k2,
    k3,
    k4,
    k5,
    k6,
    k7,
    k8,
    k9,
    k10,
    k11,
    F: tl.constexpr,
    BLOCK: tl.constexpr,
):
    offs = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    a = limbs.load(a_ptr, tl.cast(a_plane, tl.int64), offs, mask, F)
    words = (k0, k1, k2, k3, k4, k5, k6, k7, k8, k9, k10, k11)
    k = ()
    W: tl.constexpr = F.W
    for i in tl.static_range(W):
        k = k + (tl.zeros_like(a[0]) + words[i].to(tl.uint32, bitcast=True),)
    # the factor that may be large goes second
    limbs.store(out_ptr, tl.cast(n, tl.int64), offs, mask, limbs.mul(k, a, F), F)


def unary(op: Unary, a: torch.Tensor, code: FieldCode) -> torch.Tensor:
    """`op` of planes `[W, n]` into new planes `[W, n]`."""
    a, a_plane = planes(a)
    out = torch.empty(a.shape, dtype=a.dtype, device=a.device)
    n = a.shape[1]
    shape = shape_on(a.device, "elementwise", code.L)
    launch(unary_kernel, n, shape, a.device, out, a, n, a_plane, OP=op, F=code)
    return out


def binary(op: Binary, a: torch.Tensor, b: torch.Tensor, code: FieldCode) -> torch.Tensor:
    """`op` of two planes `[W, n]` into new planes `[W, n]`."""
    (a, a_plane), (b, b_plane) = planes(a), planes(b)
    out = torch.empty(a.shape, dtype=a.dtype, device=a.device)
    n = a.shape[1]
    shape = shape_on(a.device, "elementwise", code.L)
    launch(binary_kernel, n, shape, a.device, out, a, b, n, a_plane, b_plane, OP=op, F=code)
    return out


def scale(a: torch.Tensor, factor: int, code: FieldCode) -> torch.Tensor:
    """Planes `[W, n]` times a canonical integer, of a prime field."""
    a, a_plane = planes(a)
    out = torch.empty(a.shape, dtype=a.dtype, device=a.device)
    n = a.shape[1]
    words = split(code.field.to_mont(factor % code.field.modulus), len(_FACTOR))
    # one type for every word, so that no factor compiles anew
    signed = [w - (w >> (LIMB_BITS - 1) << LIMB_BITS) for w in words]
    shape = shape_on(a.device, "elementwise", code.L)
    launch(scale_kernel, n, shape, a.device, out, a, n, a_plane, *signed, F=code)
    return out
