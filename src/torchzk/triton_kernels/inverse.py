"""Many inverses for the price of one, level by level, on flat planes `[L, n]`.

Each lane multiplies its elements together, keeping the product before each; the lanes' products
are inverted in the same way, and each lane walks back. Where few elements are left, every one is
raised to p - 2 on its own: lanes that would idle cost nothing, and no host waits. Zero takes the
place of one in the products, and its own place in the result.

Source: P. Montgomery's trick; Fermat's little theorem.
"""

# in kernels a tuple grows
# mypy: disable-error-code="assignment, var-annotated"
from __future__ import annotations

import torch
import triton
import triton.language as tl

from torchzk.triton_kernels import limbs
from torchzk.triton_kernels.code import FieldCode
from torchzk.triton_kernels.launch import launch, planes, shape_on

STEPS = 32
"""Elements a lane multiplies together."""
TOP = 1 << 14
"""As many elements are inverted alone: on one H200 2^8 of them took as long as 2^14."""


@triton.jit(
    do_not_specialize=["n", "a_plane", "lanes", "steps"], do_not_specialize_on_alignment=["a_ptr"]
)
def products_kernel(
    before_ptr,  # [L, n] int32: the product of a lane's elements before this one
    product_ptr,  # [L, lanes] int32
    a_ptr,  # [L, n] int32, words a_plane apart; lane t has elements t, t + lanes, ...
    n,
    a_plane,
    lanes,
    steps,
    F: tl.constexpr,
    BLOCK: tl.constexpr,
):
    lane = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    stride = tl.cast(lanes, tl.int64)
    one = limbs.constant(F.one, lane, F)
    product = one
    for step in range(steps):
        offs = lane + step * stride
        mask = (lane < lanes) & (offs < n)
        a = limbs.load(a_ptr, tl.cast(a_plane, tl.int64), offs, mask, F)
        limbs.store(before_ptr, tl.cast(n, tl.int64), offs, mask, product, F)
        a = limbs.select(limbs.is_zero(a, F), one, a, F)
        product = limbs.mul(product, a, F)
    limbs.store(product_ptr, stride, lane, lane < lanes, product, F)


@triton.jit(
    do_not_specialize=["n", "a_plane", "lanes", "steps"], do_not_specialize_on_alignment=["a_ptr"]
)
def inverses_kernel(
    out_ptr,  # [L, n] int32: holds what products_kernel left in before_ptr, takes the inverses
    inverse_ptr,  # [L, lanes] int32: inverses of the lanes' products
    a_ptr,  # [L, n] int32, words a_plane apart
    n,
    a_plane,
    lanes,
    steps,
    F: tl.constexpr,
    BLOCK: tl.constexpr,
):
    lane = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    stride = tl.cast(lanes, tl.int64)
    plane = tl.cast(n, tl.int64)
    one = limbs.constant(F.one, lane, F)
    inverse = limbs.load(inverse_ptr, stride, lane, lane < lanes, F)
    for step in range(steps):
        offs = lane + (steps - 1 - step) * stride
        mask = (lane < lanes) & (offs < n)
        a = limbs.load(a_ptr, tl.cast(a_plane, tl.int64), offs, mask, F)
        before = limbs.load(out_ptr, plane, offs, mask, F)
        zero = limbs.is_zero(a, F)
        x = limbs.mul(inverse, before, F)
        limbs.store(out_ptr, plane, offs, mask, limbs.select(zero, a, x, F), F)
        inverse = limbs.mul(inverse, limbs.select(zero, one, a, F), F)


@triton.jit(do_not_specialize=["n", "a_plane"], do_not_specialize_on_alignment=["a_ptr"])
def fermat_kernel(
    out_ptr,  # [L, n] int32
    a_ptr,  # [L, n] int32, words a_plane apart
    n,
    a_plane,
    F: tl.constexpr,
    BLOCK: tl.constexpr,
):
    offs = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    a = limbs.load(a_ptr, tl.cast(a_plane, tl.int64), offs, mask, F)
    power = limbs.constant(F.one, offs, F)
    L: tl.constexpr = F.L
    exponent = ()
    for i in tl.static_range(L):
        exponent = exponent + (tl.full((), F.inverse_exponent[i], tl.uint32),)
    # from the top bit; the words turn, since a loop variable cannot index a tuple
    for _ in range(L):
        word = exponent[L - 1]
        for bit in range(32):
            power = limbs.sqr(power, F)
            if (word >> (31 - bit)) & 1 != 0:
                power = limbs.mul(power, a, F)
        turned = (word,)
        for i in tl.static_range(L - 1):
            turned = turned + (exponent[i],)
        exponent = turned
    limbs.store(out_ptr, tl.cast(n, tl.int64), offs, mask, power, F)


def inverse(a: torch.Tensor, code: FieldCode) -> torch.Tensor:
    """Inverses R^2 / a of planes `[L, n]` in Montgomery form, zero for zero; a prime field."""
    a, a_plane = planes(a)
    out = torch.empty(a.shape, dtype=a.dtype, device=a.device)
    n = a.shape[1]
    if n <= TOP:
        shape = shape_on(a.device, "fermat", code.L)
        launch(fermat_kernel, n, shape, a.device, out, a, n, a_plane, F=code)
        return out
    lanes = triton.cdiv(n, STEPS)
    product = torch.empty((code.L, lanes), dtype=a.dtype, device=a.device)
    shape = shape_on(a.device, "inverse", code.L)
    sizes = (n, a_plane, lanes, STEPS)
    launch(products_kernel, lanes, shape, a.device, out, product, a, *sizes, F=code)
    product = inverse(product, code)
    launch(inverses_kernel, lanes, shape, a.device, out, product, a, *sizes, F=code)
    return out
