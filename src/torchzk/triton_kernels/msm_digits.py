"""Scalars to signed window digits, and those to keys that sort into buckets."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl

from torchzk.params.fields import LIMB_BITS, split

NO_KEY = (1 << 31) - 1
"""The key of digit 0, last in ascending order."""

_NO_KEY = tl.constexpr(NO_KEY)
_BLOCK = 512


@dataclass(frozen=True)
class Windows:
    """How scalars below 2^n_bits are cut: `count` windows of `bits` bits.

    The digit of a window lies in [-2^(bits - 1), 2^(bits - 1)), that of the last one is what
    remains and not negative. A bucket is a window and a digit's size: sizes 1.. of window w are
    the labels w 2^(bits - 1)...
    """

    bits: int
    n_bits: int

    @property
    def count(self) -> int:
        return max(1, -(-self.n_bits // self.bits))

    @property
    def buckets(self) -> int:
        """Buckets of each window but the last."""
        return 1 << self.bits - 1

    @property
    def offset(self) -> int:
        """What makes all digits unsigned when it is added to the scalar."""
        return sum(self.buckets << self.bits * w for w in range(self.count - 1))

    @property
    def largest(self) -> int:
        """The largest digit of the last window."""
        return ((1 << self.n_bits) - 1 + self.offset) >> self.bits * (self.count - 1)

    def labels(self, first: int, last: int) -> int:
        """Labels of the windows first..last - 1."""
        n = (last - first) * self.buckets
        return n if last < self.count else n - self.buckets + max(self.buckets, self.largest)


def scalar_bits(scalars: torch.Tensor) -> int:
    """The length in bits of the longest scalar, from limbs `[L, n]`."""
    low, high = torch.stack((scalars.amin(1), scalars.amax(1))).tolist()
    for i in reversed(range(len(low))):
        if low[i] < 0 or high[i] > 0:
            return LIMB_BITS * i + (LIMB_BITS if low[i] < 0 else int(high[i]).bit_length())
    return 0


@triton.jit(do_not_specialize=["n", "stride", "k0", "k1", "k2", "k3", "k4", "k5", "k6", "k7"])
def add_offset(out, scalars, n, stride, k0, k1, k2, k3, k4, k5, k6, k7, BLOCK: tl.constexpr):
    """Nine planes: eight limbs plus an offset, and the carry."""
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    offset = (k0, k1, k2, k3, k4, k5, k6, k7)
    carry = tl.zeros([BLOCK], tl.int64)
    for j in tl.static_range(8):
        limb = tl.load(scalars + j * stride.to(tl.int64) + i, mask=mask, other=0)
        carry += (limb.to(tl.int64) & 0xFFFFFFFF) + (offset[j].to(tl.int64) & 0xFFFFFFFF)
        tl.store(out + j * n.to(tl.int64) + i, carry.to(tl.int32), mask=mask)
        carry = carry >> 32
    tl.store(out + 8 * n.to(tl.int64) + i, carry.to(tl.int32), mask=mask)


@triton.jit(do_not_specialize=["n", "first", "last", "bits", "top_bits"])
def make_keys(keys, planes, n, first, last, bits, top_bits, BLOCK: tl.constexpr):
    """Keys of one window: 2 (label + |digit| - 1) + sign, or the last key for digit 0."""
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    row = tl.program_id(1)
    window = first + row
    mask = i < n
    bit = window * bits
    limb = bit // 32
    at = planes + limb.to(tl.int64) * n.to(tl.int64) + i
    low = tl.load(at, mask=mask, other=0).to(tl.int64) & 0xFFFFFFFF
    high = tl.load(at + n.to(tl.int64), mask=mask & (limb < 8), other=0).to(tl.int64)
    word = ((high << 32) | low) >> (bit % 32).to(tl.int64)
    one = tl.full([BLOCK], 1, tl.int64)
    half = one << (bits - 1).to(tl.int64)
    # the last window is not negative
    top = window == last
    width = tl.where(top, top_bits, bits).to(tl.int64)
    digit = (word & ((one << width) - 1)) - tl.where(top, 0, half)
    size = tl.abs(digit)
    key = 2 * (row * half + size - 1) + (digit < 0).to(tl.int64)
    key = tl.where(size == 0, _NO_KEY, key).to(tl.int32)
    tl.store(keys + row.to(tl.int64) * n.to(tl.int64) + i, key, mask=mask)


def offset_planes(scalars: torch.Tensor, windows: Windows) -> torch.Tensor:
    """Limbs `[8, n]` to `[9, n]`, of which the digits can be read one by one."""
    n = scalars.shape[1]
    out = torch.empty(9, n, dtype=torch.int32, device=scalars.device)
    # as int32 bits, for the size of an argument chooses its type
    words = [w - (1 << 32) if w >> 31 else w for w in split(windows.offset, 8)]
    stride = scalars.stride(0)
    add_offset[(triton.cdiv(n, _BLOCK),)](out, scalars, n, stride, *words, BLOCK=_BLOCK)
    return out


def window_keys(planes: torch.Tensor, windows: Windows, first: int, last: int) -> torch.Tensor:
    """Keys int32 `[last - first, n]`: twice the label less that of window `first`, plus sign."""
    n = planes.shape[1]
    keys = torch.empty(last - first, n, dtype=torch.int32, device=planes.device)
    top_bits = max(windows.bits, windows.largest.bit_length())
    grid = (triton.cdiv(n, _BLOCK), last - first)
    top = windows.count - 1
    make_keys[grid](keys, planes, n, first, top, windows.bits, top_bits, BLOCK=_BLOCK)
    return keys
