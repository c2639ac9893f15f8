"""Poseidon over Fr and the wires of its circuit, an element of the state in each lane.

The lanes of one row of a program hold a state; products with matrices take one element after
another to all of them. One hash has 2,900 products at arity 11, of which a lane does 570, so that
the small batches of a proof do not leave the device idle. Reference: `torchzk.ops.poseidon`.
"""

# in kernels a tuple grows
# mypy: disable-error-code="assignment, misc"
from __future__ import annotations

from math import prod

import torch
import triton
import triton.language as tl

from torchzk.device_cache import kept_by_device
from torchzk.ops.layout import pack
from torchzk.ops.poseidon import check_inputs
from torchzk.params.fields import FR
from torchzk.params.poseidon import Poseidon
from torchzk.triton_kernels import limbs, sums
from torchzk.triton_kernels.launch import on_device
from torchzk.triton_kernels.variants import field_code_on

THREADS = 128
"""Lanes of a program, an element each."""


@triton.jit
def _mix(state, table_ptr, table_plane, at, width, lanes, F: tl.constexpr):
    """The product of each row with the matrix of rows of `width` that begins at `at`."""
    W: tl.constexpr = F.W
    there = lanes < width
    total = ()
    for _ in tl.static_range(W):
        total = total + (tl.zeros_like(state[0]),)
    for i in range(width):
        one = sums.pick(state, lanes == i, F)
        factor = limbs.load(table_ptr, table_plane, at + i * width + lanes, there, F)
        total = limbs.add(total, limbs.mul(factor, one, F), F)
    return total


@triton.jit
def _sbox(x, post, F: tl.constexpr):
    """x^2, x^4 and x^5 + post."""
    square = limbs.sqr(x, F)
    fourth = limbs.sqr(square, F)
    return square, fourth, limbs.add(limbs.mul(fourth, x, F), post, F)


@triton.jit(
    do_not_specialize=["n", "element", "plane", "table_plane", "width", "partial", "wires"],
    do_not_specialize_on_alignment=["inputs_ptr"],
)
def poseidon_kernel(
    out_ptr,  # [8, wires, n] int32, or [8, 1, n] for the digests alone
    inputs_ptr,  # int32: word and element plane and element apart, of n hashes side by side
    table_ptr,  # [8, table_plane] int32, see `_table`
    n,
    element,
    plane,
    table_plane,
    width,
    partial,  # rounds
    wires,
    HALF: tl.constexpr,  # full rounds before and after the partial ones
    WIRES: tl.constexpr,  # whether wires are stored
    LANES: tl.constexpr,  # at least the width
    F: tl.constexpr,
    BLOCK: tl.constexpr,
):
    ROWS: tl.constexpr = BLOCK // LANES
    rows = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    lanes = tl.arange(0, LANES)[None, :] + tl.zeros((ROWS, LANES), tl.int64)
    there = (rows < n) & (lanes < width)
    at_zero = there & (lanes == 0)
    table = tl.cast(table_plane, tl.int64)
    step = tl.cast(n, tl.int64)
    out_plane = step * wires
    # the parts of the table
    mds = (2 * HALF * width + partial).to(tl.int64)
    pre_sparse = mds + width * width
    heads = pre_sparse + width * width
    tails = heads + partial * width
    ends = tails + partial * width
    r2 = limbs.load(table_ptr, table, ends + tl.zeros_like(rows), rows < n, F)
    tag = limbs.load(table_ptr, table, ends + 1 + lanes, at_zero, F)
    offs = (lanes - 1) * element + rows
    state = limbs.load(inputs_ptr, tl.cast(plane, tl.int64), offs, there & (lanes > 0), F)
    state = limbs.select(at_zero, tag, state, F)
    before = limbs.load(table_ptr, table, lanes, there, F)
    state = limbs.add(state, before, F)
    for turn in range(2 * HALF):
        late = tl.where(turn >= HALF, partial, 0)
        # none is added in the last round
        at = (turn + 1) * width + late + lanes
        post = limbs.load(table_ptr, table, at, there & (turn + 1 < 2 * HALF), F)
        square, fourth, fifth = _sbox(state, post, F)
        if WIRES:
            # in the first round inputs are variables already, and the tag has no wires
            later = turn > 0
            of_lane = there & (later | (lanes > 0))
            wire = tl.where(
                later, 3 * (width - 1) + 4 * (width * (turn - 1) + late + lanes), 3 * lanes - 4
            )
            to = wire * step + rows
            limbs.store(out_ptr, out_plane, to, of_lane & later, state, F)
            limbs.store(out_ptr, out_plane, to + step, of_lane, square, F)
            limbs.store(out_ptr, out_plane, to + 2 * step, of_lane, fourth, F)
            limbs.store(out_ptr, out_plane, to + 3 * step, of_lane, fifth, F)
        matrix = tl.where(turn == HALF - 1, pre_sparse, mds)
        state = _mix(fifth, table_ptr, table, matrix, width, lanes, F)
        if turn == HALF - 1:
            for i in range(partial):
                at = (HALF + 1) * width + i + tl.zeros_like(lanes)
                post = limbs.load(table_ptr, table, at, there, F)
                first = sums.pick(state, lanes == 0, F)
                square, fourth, fifth = _sbox(first, post, F)
                if WIRES:
                    only = 3 * (width - 1) + 4 * (width * (HALF - 1) + i)
                    to = only * step + rows + tl.zeros_like(lanes)
                    limbs.store(out_ptr, out_plane, to, at_zero, first, F)
                    limbs.store(out_ptr, out_plane, to + step, at_zero, square, F)
                    limbs.store(out_ptr, out_plane, to + 2 * step, at_zero, fourth, F)
                    limbs.store(out_ptr, out_plane, to + 3 * step, at_zero, fifth, F)
                state = limbs.select(lanes == 0, fifth, state, F)
                head = limbs.load(table_ptr, table, heads + i * width + lanes, there, F)
                tail = limbs.load(table_ptr, table, tails + i * width + lanes, there, F)
                total = sums.over_lanes(limbs.mul(head, state, F), r2, F)
                rest = limbs.add(state, limbs.mul(tail, fifth, F), F)
                state = limbs.select(lanes == 0, total, rest, F)
    # element 1 is the digest
    to = (tl.cast(wires, tl.int64) - 1) * step + rows + tl.zeros_like(lanes)
    limbs.store(out_ptr, out_plane, to, there & (lanes == 1), state, F)


@kept_by_device(16)
def _table(instance: Poseidon, device: torch.device) -> torch.Tensor:
    """All constants, int32 `[8, *]` in Montgomery form.

    Compressed round constants, the MDS matrix, the pre-sparse one, w_hat of each partial round,
    v_rest of each behind a zero, R^2, the tag.
    """
    parts = [*instance.compressed]
    for matrix in (instance.mds, instance.pre_sparse):
        # element i of the state goes with row i; the MDS matrix is symmetric
        parts += [value for row in matrix for value in row]
    parts += [value for w_hat, _ in instance.sparse for value in w_hat]
    parts += [value for _, v_rest in instance.sparse for value in (0, *v_rest)]
    # R^2 is R in Montgomery form
    parts += [FR.r % FR.modulus, instance.tag]
    return pack([FR.to_mont(value) for value in parts], FR, device)


def poseidon(inputs: torch.Tensor, instance: Poseidon) -> torch.Tensor:
    """As `torchzk.ops.poseidon.poseidon`, bit for bit."""
    check_inputs(inputs, instance)
    out = torch.empty((FR.n_limbs, *inputs.shape[2:]), dtype=torch.int32, device=inputs.device)
    _launch(out, inputs, instance, 1)
    return out


def poseidon_wires(inputs: torch.Tensor, instance: Poseidon) -> torch.Tensor:
    """As `torchzk.ops.poseidon.poseidon_wires`, bit for bit."""
    check_inputs(inputs, instance)
    shape = (FR.n_limbs, instance.n_wires, *inputs.shape[2:])
    out = torch.empty(shape, dtype=torch.int32, device=inputs.device)
    _launch(out, inputs, instance, instance.n_wires)
    return out


def _launch(out: torch.Tensor, inputs: torch.Tensor, instance: Poseidon, wires: int) -> None:
    n, width, device = prod(inputs.shape[2:]), instance.width, inputs.device
    if n == 0:
        return
    flat = inputs.reshape(FR.n_limbs, instance.arity, n)
    if n > 1 and flat.stride(2) != 1:
        flat = flat.contiguous()
    code = field_code_on(device, FR)
    table = _table(instance, device)
    lanes = triton.next_power_of_2(width)
    with on_device(device):
        poseidon_kernel[(triton.cdiv(n, THREADS // lanes),)](
            *(out, flat, table, n, flat.stride(1), flat.stride(0), table.shape[1], width),
            *(instance.partial_rounds, wires),
            HALF=instance.full_rounds // 2,
            WIRES=wires > 1,
            LANES=lanes,
            F=code,
            BLOCK=THREADS,
            num_warps=THREADS // 32,
        )
