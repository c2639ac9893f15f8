"""SHA-256, a message in each lane. Reference: `torchzk.ops.sha256`.

The schedule is a window of 16 words that moves with the rounds. They are a loop and not unrolled,
which costs some moves and saves minutes of compilation.
Source: FIPS 180-4, section 6.2.
"""

# in kernels a tuple grows
# mypy: disable-error-code="assignment, misc"
from __future__ import annotations

from functools import cache

import torch
import triton
import triton.language as tl

from torchzk.ops.sha256 import check_messages
from torchzk.params.sha256 import BLOCK_BYTES, IV, WORD_BITS, K
from torchzk.triton_kernels.launch import launch, shape_on


@triton.jit
def rotr(x, n: tl.constexpr):
    return (x >> n) | (x << (32 - n))


@triton.jit
def _message_word(ptr, place, length, n_words, there):
    """Word `place` of the padded message whose bytes begin at `ptr`; big-endian.

    From single bytes: LLVM makes pairs of swapped words, which it cannot compile for sm_120.
    """
    word = tl.zeros(ptr.shape, tl.uint32)
    for i in tl.static_range(4):
        at = 4 * place + i
        byte = tl.load(ptr + at, mask=there & (at < length), other=0).to(tl.uint32)
        word = (word << 8) | tl.where(at == length, tl.full((), 0x80, tl.uint32), byte)
    bits = tl.cast(length, tl.int64) * 8
    word = tl.where(place == n_words - 2, (bits >> 32).to(tl.uint32), word)
    return tl.where(place == n_words - 1, bits.to(tl.uint32), word)


@triton.jit(
    do_not_specialize=["n", "length", "n_blocks"], do_not_specialize_on_alignment=["messages_ptr"]
)
def digest_kernel(
    out_ptr,  # [n, 32] uint8
    messages_ptr,  # [n, length] uint8
    constants_ptr,  # [72] int32: the 64 constants of the rounds, the first state
    n,
    length,
    n_blocks,
    BLOCK: tl.constexpr,
):
    offs = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    there = offs < n
    message_ptr = messages_ptr + offs * length
    zero = tl.zeros((BLOCK,), tl.uint32)
    state = ()
    for i in tl.static_range(8):
        first = tl.load(constants_ptr + 64 + i).to(tl.uint32, bitcast=True)
        state = state + (zero + first,)
    for block in range(n_blocks):
        w = ()
        for i in tl.static_range(16):
            place = block * 16 + i
            w = w + (_message_word(message_ptr, place, length, n_blocks * 16, there),)
        a, b, c, d, e, f, g, h = state
        for turn in range(64):
            k = tl.load(constants_ptr + turn).to(tl.uint32, bitcast=True)
            t1 = h + (rotr(e, 6) ^ rotr(e, 11) ^ rotr(e, 25)) + (g ^ (e & (f ^ g)))
            t1 += k + w[0]
            t2 = (rotr(a, 2) ^ rotr(a, 13) ^ rotr(a, 22)) + ((a & b) | (c & (a | b)))
            h = g
            g = f
            f = e
            e = d + t1
            d = c
            c = b
            b = a
            a = t1 + t2
            # the word 16 later takes this one's place, after all others
            s0 = rotr(w[1], 7) ^ rotr(w[1], 18) ^ (w[1] >> 3)
            s1 = rotr(w[14], 17) ^ rotr(w[14], 19) ^ (w[14] >> 10)
            later = w[0] + s0 + w[9] + s1
            turned = ()
            for j in tl.static_range(1, 16):
                turned = turned + (w[j],)
            w = turned + (later,)
        worked = (a, b, c, d, e, f, g, h)
        added = ()
        for i in tl.static_range(8):
            added = added + (state[i] + worked[i],)
        state = added
    for i in tl.static_range(8):
        for byte in tl.static_range(4):
            value = (state[i] >> (24 - 8 * byte)).to(tl.uint8)
            tl.store(out_ptr + offs * 32 + 4 * i + byte, value, mask=there)


@cache
def constants(device: torch.device) -> torch.Tensor:
    """int32 `[72]`: the constants of the rounds, the first state."""
    words = [w - (w >> (WORD_BITS - 1) << WORD_BITS) for w in (*K, *IV)]
    return torch.tensor(words, dtype=torch.int32, device=device)


def sha256(messages: torch.Tensor) -> torch.Tensor:
    """As `torchzk.ops.sha256.sha256`, bit for bit."""
    check_messages(messages)
    n, length = messages.shape
    out = torch.empty((n, 32), dtype=torch.uint8, device=messages.device)
    n_blocks = (length + 9 + BLOCK_BYTES - 1) // BLOCK_BYTES
    args = (messages.contiguous(), constants(messages.device), n, length, n_blocks)
    shape = shape_on(messages.device, "sha256", len(IV))
    launch(digest_kernel, n, shape, messages.device, out, *args)
    return out
