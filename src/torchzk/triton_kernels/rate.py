"""How fast a device multiplies when nothing but registers is in the way: chains of products.

No operation of the backend: a measure, and the floor of those that are made of products.
"""

from __future__ import annotations

from typing import Any, Literal

import torch
import triton
import triton.language as tl

from torchzk.triton_kernels import limbs
from torchzk.triton_kernels.code import FieldCode
from torchzk.triton_kernels.launch import launch, on_device, shape_on

Link = Literal["mul", "sqr", "add"]
# an addition is so short that the loop around it would be measured; eight products fill the
# instruction cache
_UNROLLED: dict[Link, int] = {"mul": 1, "sqr": 1, "add": 8}


@triton.jit(do_not_specialize=["n", "n_rounds"])
def chain_kernel(
    out_ptr,  # [W, n] int32
    a_ptr,  # [W, n] int32
    b_ptr,  # [W, n] int32
    n,
    n_rounds,
    OP: tl.constexpr,
    UNROLLED: tl.constexpr,
    F: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """a b b ... b, or a squared again and again, or a + b + b ... + b."""
    offs = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    plane = tl.cast(n, tl.int64)
    a = limbs.load(a_ptr, plane, offs, mask, F)
    b = limbs.load(b_ptr, plane, offs, mask, F)
    for _ in range(n_rounds):
        for _ in tl.static_range(UNROLLED):
            if OP == "mul":
                a = limbs.mul(a, b, F)
            elif OP == "sqr":
                a = limbs.sqr(a, F)
            else:
                tl.static_assert(OP == "add")
                a = limbs.add(a, b, F)
    limbs.store(out_ptr, plane, offs, mask, a, F)


def chain(op: Link, a: torch.Tensor, b: torch.Tensor, length: int, code: FieldCode) -> torch.Tensor:
    """`length` links, each of which needs the one before, in every lane.

    Args:
        op: `mul` or `add`, with `b` each time, or `sqr`.
        a: Contiguous planes `[W, n]`: what chains begin with.
        b: Contiguous planes `[W, n]`.
        length: A multiple of 8.
        code: The field.

    Returns:
        Planes `[W, n]`; products are Montgomery products.
    """
    out = torch.empty_like(a)
    shape = shape_on(a.device, "elementwise", code.L)
    args, constants = _arguments(op, a, b, length, code)
    launch(chain_kernel, a.shape[1], shape, a.device, out, *args, **constants)
    return out


def whole_wave(op: Link, device: torch.device, code: FieldCode) -> int:
    """Lanes that fill the device once: all programs start and end together.

    A last wave that is not full would take as long as a full one, and spoil the rate.
    """
    shape = shape_on(device, "elementwise", code.L)
    if device.type != "cuda":
        return shape.block
    one = torch.zeros(code.W, shape.block, dtype=torch.int32, device=device)
    args, constants = _arguments(op, one, one, 0, code)
    with on_device(device):
        compiled = chain_kernel[(1,)](
            one, *args, **constants, BLOCK=shape.block, num_warps=shape.num_warps
        )
    about = torch.cuda.get_device_properties(device)
    # registers are given to warps by 256
    per_warp = -(-32 * compiled.n_regs // 256) * 256
    warps = min(
        about.max_threads_per_multi_processor // 32,
        about.regs_per_multiprocessor // per_warp,  # type: ignore[attr-defined]
    )
    blocks: int = about.multi_processor_count * (warps // shape.num_warps)
    return blocks * shape.block


def _arguments(
    op: Link, a: torch.Tensor, b: torch.Tensor, length: int, code: FieldCode
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    unrolled = _UNROLLED[op] if code.variant == "ptx" else 1
    return (a, b, a.shape[1], length // unrolled), {"OP": op, "UNROLLED": unrolled, "F": code}
