"""Scalars to signed window digits, and those to keys that sort into buckets."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property

import torch
import triton
import triton.language as tl

from torchzk.params.fields import FR, LIMB_BITS, split
from torchzk.triton_kernels.launch import launch, planes, run, shape_on
from torchzk.triton_kernels.tuning import Shape

NO_KEY = (1 << 31) - 1
"""The key of digit 0, last in ascending order."""

_NO_KEY = tl.constexpr(NO_KEY)


@dataclass(frozen=True)
class Windows:
    """How scalars below `bound` are cut: `count` windows of `bits` bits, or a bit more.

    A digit lies in [-2^(b - 1), 2^(b - 1)) where its window has b bits, but that of the last
    window, which is what remains, in [0, 2^(b - 1)]. So each has 2^(b - 1) sizes beside 0.
    """

    bits: int
    bound: int
    wide: int = 0
    """The last so many windows have a bit more."""

    @cached_property
    def count(self) -> int:
        count = max(1, self.wide, ((self.bound - 1).bit_length() - self.wide) // self.bits)
        while self._last(count) > self._half(count, count - 1):
            count += 1
        return count

    @property
    def narrow(self) -> int:
        """Windows without the bit more."""
        return self.count - self.wide

    @property
    def spans(self) -> list[range]:
        """The windows of either width."""
        spans = range(0, self.narrow), range(self.narrow, self.count)
        return [span for span in spans if span]

    @property
    def sizes(self) -> int:
        """Digit sizes of a window beside 0, where windows are of one width; of a narrow one."""
        return 1 << self.bits - 1

    @property
    def most_sizes(self) -> int:
        """Digit sizes of a window beside 0 at most."""
        return self.sizes << (self.wide > 0)

    def labels(self, first: int, last: int) -> int:
        """Digit sizes of the windows first..last - 1."""
        return self.sizes * (last - first + max(0, last - max(self.narrow, first)))

    def start(self, window: int) -> int:
        """The first bit of a window."""
        return self._start(self.count, window)

    @property
    def offset(self) -> int:
        """What makes all digits unsigned when it is added to the scalar."""
        return self._offset(self.count)

    @property
    def last(self) -> int:
        """The largest digit of the last window."""
        return self._last(self.count)

    def _start(self, count: int, window: int) -> int:
        return self.bits * window + max(0, window - (count - self.wide))

    def _half(self, count: int, window: int) -> int:
        """Sizes of a window of `count`."""
        return self.sizes << (window >= count - self.wide)

    def _offset(self, count: int) -> int:
        return sum(self._half(count, w) << self._start(count, w) for w in range(count - 1))

    def _last(self, count: int) -> int:
        """The largest digit of the last of `count` windows."""
        return (self.bound - 1 + self._offset(count)) >> self._start(count, count - 1)


def scalar_bound(scalars: torch.Tensor) -> int:
    """A number all scalars `[L, n]` are below, which the highest of their words gives."""
    # of most scalars the highest word is enough, and no other is read
    for words in (scalars[-1:], scalars):
        low, high = torch.stack(words.aminmax(dim=1)).tolist()
        for i in reversed(range(len(low))):
            if low[i] < 0 or high[i] > 0:
                # of words taken for negative the greatest is not known
                top = (1 << LIMB_BITS) if low[i] < 0 else int(high[i]) + 1
                return top << LIMB_BITS * (len(scalars) - len(low) + i)
    return 1


# words are read one by one, wherever a piece of the scalars starts
@triton.jit(do_not_specialize=["n", "stride"], do_not_specialize_on_alignment=["scalars"])
def find_carries(carries, scalars, offset, n, stride, BLOCK: tl.constexpr):
    """Bit j of a byte: the carry into limb j + 1 of scalar plus offset."""
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    carry = tl.zeros([BLOCK], tl.int64)
    byte = tl.zeros([BLOCK], tl.int32)
    for j in tl.static_range(8):
        limb = tl.load(scalars + j * stride.to(tl.int64) + i, mask=mask, other=0)
        carry += (limb.to(tl.int64) & 0xFFFFFFFF) + (tl.load(offset + j).to(tl.int64) & 0xFFFFFFFF)
        carry = carry >> 32
        byte = byte | (carry.to(tl.int32) << j)
    tl.store(carries + i, byte.to(tl.int8), mask=mask)


@triton.jit
def _limb(scalars, offset, carry, stride, i, j, mask):
    """Limb j of scalar plus offset, int64; limb 8 is the last carry."""
    inside = j < 8
    limb = tl.load(scalars + j.to(tl.int64) * stride.to(tl.int64) + i, mask=mask & inside, other=0)
    more = tl.load(offset + j, mask=inside, other=0)
    # of no limb below the first a carry comes
    total = limb.to(tl.int64) + more.to(tl.int64) + (carry << 1 >> j & 1).to(tl.int64)
    return total & 0xFFFFFFFF


@triton.jit(
    do_not_specialize=["n", "stride", "first", "last", "bits", "narrow"],
    do_not_specialize_on_alignment=["scalars"],
)
def make_keys(
    keys, scalars, carries, offset, n, stride, first, last, bits, narrow, BLOCK: tl.constexpr
):
    """Keys of one window: 2 label + sign, or the last key for digit 0."""
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    row = tl.program_id(1)
    window = first + row
    mask = i < n
    # from window `narrow` on they have a bit more
    bit = window * bits + tl.maximum(window - narrow, 0)
    begin = row + tl.maximum(window - tl.maximum(narrow, first), 0)
    carry = tl.load(carries + i, mask=mask, other=0).to(tl.int32) & 0xFF
    low = _limb(scalars, offset, carry, stride, i, bit // 32, mask)
    high = _limb(scalars, offset, carry, stride, i, bit // 32 + 1, mask)
    word = ((high << 32) | low) >> (bit % 32).to(tl.int64)
    one = tl.full([BLOCK], 1, tl.int64)
    unit = one << (bits - 1).to(tl.int64)
    half = tl.where(window >= narrow, 2 * unit, unit)
    # the last window is not negative
    digit = (word & (2 * half - 1)) - tl.where(window == last, 0, half)
    size = tl.abs(digit)
    key = 2 * (begin * unit + (size & (half - 1))) + (digit < 0).to(tl.int64)
    key = tl.where(size == 0, _NO_KEY, key).to(tl.int32)
    tl.store(keys + row.to(tl.int64) * n.to(tl.int64) + i, key, mask=mask)


@dataclass(frozen=True)
class Digits:
    """Scalars that are read digit by digit."""

    scalars: torch.Tensor
    """int32 `[8, n]`, the words of a scalar as far apart as they are."""
    windows: Windows
    offset: torch.Tensor
    """int32 `[8]`"""
    carries: torch.Tensor
    """int8 `[n]`, see `find_carries`."""

    def keys(self, first: int, last: int) -> torch.Tensor:
        """Keys int32 `[last - first, n]` of the windows first..last - 1: twice a label, plus sign.

        The label of window w and digit size s is s after the labels of the windows before, where
        the largest s counts as 0.
        """
        n, windows = self.scalars.shape[1], self.windows
        keys = torch.empty(last - first, n, dtype=torch.int32, device=self.scalars.device)
        shape = _shape(keys.device)
        grid = (triton.cdiv(n, shape.block), last - first)
        cut = (first, windows.count - 1, windows.bits, windows.narrow)
        given = (keys, self.scalars, self.carries, self.offset, n, self.scalars.stride(0), *cut)
        run(make_keys, grid, *given, BLOCK=shape.block, num_warps=shape.num_warps)
        return keys


def digits(scalars: torch.Tensor, windows: Windows) -> Digits:
    """The digits of limbs `[8, n]`."""
    scalars, stride = planes(scalars)
    n = scalars.shape[1]
    offset = _words_on(windows.offset, scalars.device)
    carries = torch.empty(n, dtype=torch.int8, device=scalars.device)
    device = scalars.device
    launch(find_carries, n, _shape(device), device, carries, scalars, offset, n, stride)
    return Digits(scalars, windows, offset, carries)


@cache
def _words_on(number: int, device: torch.device) -> torch.Tensor:
    """int32 `[8]`. Kept, as to move them would wait for whatever else is on its way to a device.

    Any stream may use them: the host waits until they are there.
    """
    # as int32 bits
    words = [w - (1 << 32) if w >> 31 else w for w in split(number, 8)]
    return torch.tensor(words, dtype=torch.int32, device=device)


def _shape(device: torch.device) -> Shape:
    return shape_on(device, "digits", FR.n_limbs)
