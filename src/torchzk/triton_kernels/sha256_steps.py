"""Every step of many compressions of SHA-256, a compression in each lane.

Reference: `torchzk.ops.sha256_steps`. The rounds and the schedule run side by side, so that 16
words of it are held; where a step is stored follows from its number in `params.sha256_steps`.
"""

# in kernels a tuple grows
# mypy: disable-error-code="assignment, misc"
from __future__ import annotations

import torch
import triton
import triton.language as tl

from torchzk.ops.sha256_steps import check_words
from torchzk.params.sha256 import IV
from torchzk.params.sha256_steps import N_STEPS
from torchzk.triton_kernels.launch import launch, planes, shape_on
from torchzk.triton_kernels.sha256 import constants, rotr


@triton.jit
def _note(ptr, step, plane, word, mask):
    tl.store(ptr + step * plane, word.to(tl.int64), mask=mask)


@triton.jit
def _mixed(ptr, step, plane, x, y, z, mask):
    """The exclusive or of three words, in two steps."""
    both = x ^ y
    _note(ptr, step, plane, both, mask)
    _note(ptr, step + 1, plane, both ^ z, mask)
    return both ^ z


@triton.jit
def _schedule(ptr, step, plane, w, mask):
    """The word after the window `w`, in five steps; a sum, kept whole."""
    s0 = _mixed(ptr, step, plane, rotr(w[1], 7), rotr(w[1], 18), w[1] >> 3, mask)
    s1 = _mixed(ptr, step + 2, plane, rotr(w[14], 17), rotr(w[14], 19), w[14] >> 10, mask)
    total = w[0].to(tl.uint64) + s0 + w[9] + s1
    _note(ptr, step + 4, plane, total, mask)
    return total.to(tl.uint32)


@triton.jit(
    do_not_specialize=["n", "blocks_plane", "states_plane"],
    do_not_specialize_on_alignment=["blocks_ptr", "states_ptr"],
)
def steps_kernel(
    out_ptr,  # [N_STEPS, n] int64
    blocks_ptr,  # [16, n] int32, words blocks_plane apart
    states_ptr,  # [8, n] int32, words states_plane apart
    constants_ptr,  # [72] int32, see sha256.constants
    n,
    blocks_plane,
    states_plane,
    BLOCK: tl.constexpr,
):
    offs = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    there = offs < n
    out = out_ptr + offs
    plane = tl.cast(n, tl.int64)
    w = ()
    for i in tl.static_range(16):
        word = tl.load(blocks_ptr + i * tl.cast(blocks_plane, tl.int64) + offs, mask=there, other=0)
        w = w + (word.to(tl.uint32, bitcast=True),)
    state = ()
    for i in tl.static_range(8):
        word = tl.load(states_ptr + i * tl.cast(states_plane, tl.int64) + offs, mask=there, other=0)
        state = state + (word.to(tl.uint32, bitcast=True),)
    b = state[1]
    c = state[2]
    d = state[3]
    f = state[5]
    g = state[6]
    h = state[7]
    # a and e as sums, cut when they are needed
    a_sum = state[0].to(tl.uint64)
    e_sum = state[4].to(tl.uint64)
    for turn in range(64):
        # the first round has words for sums, so it lacks two steps
        later = there & (turn > 0)
        step = 48 * 5 - 2 + 9 * turn
        early_step = step + tl.where(turn == 0, 1, 0)
        k = tl.load(constants_ptr + turn).to(tl.uint32, bitcast=True)
        _note(out, step, plane, e_sum, later)
        e = e_sum.to(tl.uint32)
        s1 = _mixed(out, early_step + 1, plane, rotr(e, 6), rotr(e, 11), rotr(e, 25), there)
        choice = g ^ (e & (f ^ g))
        _note(out, early_step + 3, plane, choice, there)
        common = h.to(tl.uint64) + s1 + choice + k + w[0]
        _note(out, step + 4, plane, a_sum, later)
        a = a_sum.to(tl.uint32)
        s0 = _mixed(out, step + 5, plane, rotr(a, 2), rotr(a, 13), rotr(a, 22), there)
        majority = (a & b) | (c & (a | b))
        _note(out, step + 7, plane, majority, there)
        _note(out, step + 8, plane, b & c, there)
        a_sum = common + s0 + majority
        e_sum = common + d
        d = c
        c = b
        b = a
        h = g
        g = f
        f = e
        new = _schedule(out, 5 * turn, plane, w, there & (turn < 48))
        turned = ()
        for j in tl.static_range(1, 16):
            turned = turned + (w[j],)
        w = turned + (new,)
    last = (a_sum, b, c, d, e_sum, f, g, h)
    for i in tl.static_range(8):
        total = last[i].to(tl.uint64) + state[i]
        _note(out, 48 * 5 + 7 + 63 * 9 + i, plane, total, there)


def sha256_steps(blocks: torch.Tensor, states: torch.Tensor) -> torch.Tensor:
    """As `torchzk.ops.sha256_steps.sha256_steps`, bit for bit."""
    check_words(blocks, states)
    (blocks, blocks_plane), (states, states_plane) = planes(blocks), planes(states)
    n, device = blocks.shape[1], blocks.device
    out = torch.empty((N_STEPS, n), dtype=torch.int64, device=device)
    args = (out, blocks, states, constants(device), n, blocks_plane, states_plane)
    shape = shape_on(device, "sha256 steps", len(IV))
    launch(steps_kernel, n, shape, device, *args)
    return out
