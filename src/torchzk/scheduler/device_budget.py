"""What a process may have of a device: asked for, limited, and given back. All figures in bytes."""

from __future__ import annotations

import torch

from torchzk import captures
from torchzk.scheduler import machine

_SETTINGS = "expandable_segments:True"
_KEPT_BACK = 64
"""One part in so many is no plan's: blocks of the allocator end where tensors do not."""


def prepare_memory(device: torch.device, limit: int | None) -> None:
    """Have torch's allocator map memory where it is wanted, and keep a limit if there is one.

    In fixed blocks, what is freed between two tensors would be lost to a longer one. The limit
    holds for the whole process, until the next call. Off CUDA nothing is done.
    """
    if device.type != "cuda":
        return
    # no public function has the name; the second is how it was called before torch 2.12
    change = getattr(torch._C, "_accelerator_setAllocatorSettings", None)
    (change or torch.cuda.memory._set_allocator_settings)(_SETTINGS)
    _, total = torch.cuda.mem_get_info(device)
    share = 1.0 if limit is None else min(1.0, limit / total)
    torch.cuda.set_per_process_memory_fraction(share, device)


def free_memory(device: torch.device) -> int:
    """Bytes to be had on `device`; on CUDA with those that torch keeps for its next tensor."""
    if device.type != "cuda":
        return machine.memory().usable
    free, _ = torch.cuda.mem_get_info(device)
    return free + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)


def driver_memory(device: torch.device) -> int:
    """Bytes that the driver has for this process on a CUDA device, within its limit.

    Of what the driver has, a limit leaves no more than what torch has not reserved yet.
    """
    free, total = torch.cuda.mem_get_info(device)
    share = torch.cuda.get_per_process_memory_fraction(device)
    if share < 1:
        free = max(0, min(free, int(share * total) - torch.cuda.memory_reserved(device)))
    return free


def budget(device: torch.device, limit: int | None) -> int:
    """All that a plan may count on: what is free, what this process has, and no more than `limit`.

    The limit is for GPUs.
    """
    there = free_memory(device)
    if device.type != "cuda":
        return there
    there += torch.cuda.memory_allocated(device)
    allowed = there if limit is None else min(there, limit)
    return allowed - allowed // _KEPT_BACK


def half_of_the_rest(device: torch.device, limit: int | None, own: int) -> int:
    """A budget for who was refused memory: its own, and half of what is then free.

    Args:
        own: Bytes of the plan that are there already, a key that stays. What else this process
            has, such as another circuit's key, is no part of the plan.
    """
    if device.type == "cuda":
        captures.empty_cache()
        taken = torch.cuda.memory_allocated(device)
        return own + max(0, budget(device, limit) - taken) // 2
    return budget(device, limit) // 2
