"""Device functions on elements that lie in the lanes of one row: their sum, and one of them.

The words of all lanes are added up by themselves, in 64 bits, and carried once; two products
bring the result below p, whatever the number of lanes.
"""

# in kernels a tuple grows
# mypy: disable-error-code="assignment, misc"
from __future__ import annotations

import triton
import triton.language as tl

from torchzk.triton_kernels import limbs


@triton.jit
def over_lanes(x, r2, F: tl.constexpr):
    """The sum of each row of elements `[n, lanes]`: `[n, 1]`. `r2` is R^2 mod p, `[n, 1]`."""
    W: tl.constexpr = F.W
    low = ()
    high = ()
    acc = tl.sum(x[0].to(tl.uint64), 1)[:, None]
    for i in tl.static_range(W):
        low = low + (acc.to(tl.uint32),)
        if i + 1 < W:
            acc = (acc >> 32) + tl.sum(x[i + 1].to(tl.uint64), 1)[:, None]
    # low + high R = (low R + (high R^2)) / R
    high = high + ((acc >> 32).to(tl.uint32),)
    for _ in tl.static_range(1, W):
        high = high + (tl.zeros_like(low[0]),)
    one = limbs.constant(F.one, low[0], F)
    return limbs.add(limbs.mul(one, low, F), limbs.mul(r2, high, F), F)


@triton.jit
def pick(x, chosen, F: tl.constexpr):
    """Of each row of `[n, lanes]` the element in the one lane that is `chosen`, in all lanes."""
    W: tl.constexpr = F.W
    out = ()
    for i in tl.static_range(W):
        zero = tl.zeros_like(x[i])
        out = out + (tl.sum(tl.where(chosen, x[i], zero), 1)[:, None] + zero,)
    return out
