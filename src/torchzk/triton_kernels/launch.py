"""How kernels are launched: grid, device, and what tensors they are given."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any

import torch
import triton

from torchzk.triton_kernels.tuning import DEFAULT_ARCH, Shape, number_for, shape_for


def on_device(device: torch.device) -> AbstractContextManager[Any]:
    """Make `device` Triton's current one."""
    return torch.cuda.device(device) if device.type == "cuda" else nullcontext()


@cache
def arch_of(device: torch.device) -> int:
    """The architecture as in sm_90; off CUDA that of `tuning.DEFAULT_ARCH`."""
    if device.type != "cuda":
        return DEFAULT_ARCH
    major, minor = torch.cuda.get_device_capability(device)
    return 10 * major + minor


def shape_on(device: torch.device, op: str, n_limbs: int) -> Shape:
    """The launch shape of an operation on a device."""
    return shape_for(op, n_limbs, arch_of(device))


def number_on(device: torch.device, op: str, n_limbs: int, log_n: int) -> int:
    """The tuned number of an operation at size 2^log_n on a device."""
    return number_for(op, n_limbs, arch_of(device), log_n)


def launch(
    kernel: Any, n: int, shape: Shape, device: torch.device, *args: Any, **constants: Any
) -> None:
    """Run `kernel(*args, **constants, BLOCK)` over `n` elements; nothing for none."""
    if n == 0:
        return
    grid = (triton.cdiv(n, shape.block),)
    limit = {} if shape.registers is None else {"maxnreg": shape.registers}
    with on_device(device):
        kernel[grid](*args, **constants, BLOCK=shape.block, num_warps=shape.num_warps, **limit)


def flat(x: torch.Tensor, n_words: int) -> torch.Tensor:
    """`[..., *batch]` of `n_words` words an element as planes `[n_words, n]`, a view if it can."""
    # with no elements, -1 would be ambiguous
    return x.reshape(n_words, x.numel() // n_words)


def planes(x: torch.Tensor) -> tuple[torch.Tensor, int]:
    """Planes `[W, n]` whose elements lie side by side, and the distance of two words.

    A slice of longer planes is taken as it is; anything else that is not contiguous is copied.
    """
    if x.shape[1] > 1 and x.stride(1) != 1:
        x = x.contiguous()
    return x, x.stride(0)
