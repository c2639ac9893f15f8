"""The largest distances of a transform, a stage each, in place; what is left are short transforms.

After the `log_split` stages of the largest distances, a transform from natural order is one of
length n / 2^log_split for each of the vectors that then lie side by side, with the same constants:
they depend on a stage's distance alone. Where a transform to natural order ends it is the same,
backwards. So passes of a short domain do the rest, with its table of roots and its rows.

The constants here come from no table of n entries: as products of two powers, of about 2 sqrt(n)
that are kept.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

from torchzk.device_cache import kept_by_device
from torchzk.params.domains import Domain
from torchzk.params.fields import FR
from torchzk.triton_kernels import limbs
from torchzk.triton_kernels.butterflies import canonical
from torchzk.triton_kernels.launch import launch, shape_on, wait
from torchzk.triton_kernels.ntt_code import NttCode
from torchzk.triton_kernels.twiddles import power_factors

Powers = tuple[torch.Tensor, torch.Tensor, int]
"""Rows `[n_high, 8]` and `[2^log_low, 8]`, and log_low: see `powers`."""


@triton.jit
def _place(n_lanes, log_m, BLOCK: tl.constexpr):
    """Column and first element of each lane, and whether the lane exists."""
    lane = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = lane < n_lanes
    col = lane & ((tl.cast(1, tl.int64) << log_m) - 1)
    return col, ((lane - col) << 1) + col, mask


@triton.jit
def _power(high_ptr, low_ptr, i, log_low, mask, F: tl.constexpr):
    """g^i in Montgomery form. Of rows: a warp's powers are as far apart as its stage has it."""
    low = i & ((tl.cast(1, tl.int64) << log_low) - 1)
    x = limbs.load_row(high_ptr, 8 * (i >> log_low), mask, F)
    y = limbs.load_row(low_ptr, 8 * low, mask, F)
    return limbs.mul(x, y, F)


@triton.jit(do_not_specialize=["plane_out", "plane_in", "n_lanes", "log_m", "log_n", "log_low"])
def split_kernel(
    out_ptr,  # planes, plane_out words apart
    in_ptr,  # planes, plane_in words apart, canonical
    high_ptr,  # [n_high, 8] int32, powers of g^(2^log_low)
    low_ptr,  # [2^log_low, 8] int32, powers of g, a primitive 2n-th root
    plane_out,
    plane_in,
    n_lanes,
    log_m,  # of the distance
    log_n,
    log_low,
    COSET: tl.constexpr,
    T: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """A stage of the inverse from natural order, on the coset or the domain; canonical."""
    F: tl.constexpr = T.F
    m, log = tl.cast(log_m, tl.int64), tl.cast(log_n, tl.int64)
    col, base, mask = _place(n_lanes, m, BLOCK)
    u = limbs.load(in_ptr, tl.cast(plane_in, tl.int64), base, mask, F)
    beyond = base + (tl.cast(1, tl.int64) << m)
    v = limbs.load(in_ptr, tl.cast(plane_in, tl.int64), beyond, mask, F)
    # g^-e is -g^(n - e)
    e = (tl.cast(1, tl.int64) << log) - (((2 * col + COSET) << (log - m)) >> 1)
    w = _power(high_ptr, low_ptr, e, tl.cast(log_low, tl.int64), mask, F)
    limbs.store(out_ptr, tl.cast(plane_out, tl.int64), base, mask, limbs.add(u, v, F), F)
    difference = limbs.mul(limbs.sub(v, u, F), w, F)
    limbs.store(out_ptr, tl.cast(plane_out, tl.int64), beyond, mask, difference, F)


@triton.jit(do_not_specialize=["plane_out", "plane_in", "n_lanes", "log_m", "log_n", "log_low"])
def join_kernel(
    out_ptr,  # planes, plane_out words apart
    in_ptr,  # planes, plane_in words apart, below 2p
    high_ptr,  # [n_high, 8] int32, powers of g^(2^log_low)
    low_ptr,  # [2^log_low, 8] int32, powers of g, a primitive 2n-th root
    plane_out,
    plane_in,
    n_lanes,
    log_m,  # of the distance
    log_n,
    log_low,
    T: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """A stage of the transform to the coset, in natural order; canonical."""
    F: tl.constexpr = T.F
    m, log = tl.cast(log_m, tl.int64), tl.cast(log_n, tl.int64)
    col, base, mask = _place(n_lanes, m, BLOCK)
    u = limbs.load(in_ptr, tl.cast(plane_in, tl.int64), base, mask, F)
    u = canonical(u, T)
    beyond = base + (tl.cast(1, tl.int64) << m)
    v = limbs.load(in_ptr, tl.cast(plane_in, tl.int64), beyond, mask, F)
    e = ((2 * col + 1) << (log - m)) >> 1
    w = _power(high_ptr, low_ptr, e, tl.cast(log_low, tl.int64), mask, F)
    # the second factor may be anything below R
    v = limbs.mul(w, v, F)
    limbs.store(out_ptr, tl.cast(plane_out, tl.int64), base, mask, limbs.add(u, v, F), F)
    limbs.store(out_ptr, tl.cast(plane_out, tl.int64), beyond, mask, limbs.sub(u, v, F), F)


def split(x: torch.Tensor, domain: Domain, log_split: int, code: NttCode, *, coset: bool) -> None:
    """The first stages of the inverse from natural order, without 1/n.

    Args:
        x: Contiguous `[8, n]`, canonical; is overwritten.
        log_split: How many stages, at most log_n.
        coset: Of values on the coset of the 2n-th root g, not on the domain.
    """
    for i in range(log_split):
        _stage(split_kernel, x, domain, domain.log_n - 1 - i, COSET=coset, T=code)


def join(x: torch.Tensor, domain: Domain, log_split: int, code: NttCode) -> None:
    """The last stages of the transform to the coset, in natural order.

    Args:
        x: Contiguous `[8, n]`, below 2p; is overwritten.
        log_split: How many stages, at most log_n.
    """
    for i in reversed(range(log_split)):
        _stage(join_kernel, x, domain, domain.log_n - 1 - i, T=code)


def _stage(kernel: Any, x: torch.Tensor, domain: Domain, log_m: int, **constants: Any) -> None:
    n, device = domain.size, x.device
    high, low, log_low = powers(domain.log_n, device)
    shape = shape_on(device, "elementwise", FR.n_limbs)
    args = (x, x, high, low, n, n, n // 2, log_m, domain.log_n, log_low)
    launch(kernel, n // 2, shape, device, *args, **constants)


@kept_by_device(4)
def powers(log_n: int, device: torch.device) -> Powers:
    """Two tables whose products are g^0, ..., g^n, for g a primitive root of order 2n, n = 2^log_n.

    g^i is `high[i >> log_low]` times `low[i mod 2^log_low]`. Of a device the last four pairs are
    kept.
    """
    g = Domain(log_n).coset_shift
    high, low, log_low = power_factors(g, (1 << log_n) + 1, torch.device("cpu"))
    rows = tuple(x.t().contiguous().to(device) for x in (high, low))
    wait(device)
    return rows[0], rows[1], log_low


def powers_bytes(log_n: int) -> int:
    """What `powers` keeps."""
    log_low = (log_n + 2) // 2
    return 4 * FR.n_limbs * ((1 << log_low) + ((1 << log_n) >> log_low) + 1)
