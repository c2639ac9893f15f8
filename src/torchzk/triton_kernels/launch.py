"""How kernels are launched: grid, device, and what tensors they are given."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from typing import Any, Literal, NamedTuple

import torch
import triton

from torchzk.triton_kernels.tuning import DEFAULT_ARCH, Shape, number_for, shape_for

_AS_IT_IS = nullcontext()


def on_device(device: torch.device) -> AbstractContextManager[Any]:
    """Make `device` Triton's current one."""
    # looked at first: to change it takes the host some microseconds
    if device.type != "cuda" or device.index == torch.cuda.current_device():
        return _AS_IT_IS
    return torch.cuda.device(device)


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


def number_on(device: torch.device, op: str, n_limbs: int, log_n: int = 0) -> int:
    """The tuned number of an operation at size 2^log_n on a device."""
    return number_for(op, n_limbs, arch_of(device), log_n)


# what Triton compiled, by what it depends on; see `run`
_COMPILED: dict[tuple[Any, ...], Any] = {}

Mark = Literal["fork", "join"]
"""Where `beside.fork` or `beside.join` was called."""


class Launch(NamedTuple):
    """A launch that was noted."""

    start: Callable[..., None]
    """Starts a compiled kernel over its grid."""
    args: tuple[Any, ...]
    """What it was given."""
    is_beside: bool = False
    """Whether it was on the stream of `beside.beside`."""


Log = list[Launch | Mark]


class _Noting(threading.local):
    log: Log | None = None
    is_beside = False


NOTING = _Noting()
"""What this thread notes, if it does."""


def can_be_noted(device: torch.device) -> bool:
    """Whether `noting` sees what is launched there: what `run` compiles once."""
    return device.type == "cuda" and not torch.version.hip


@contextmanager
def noting() -> Iterator[Log]:
    """Note what this thread launches by `run` meanwhile."""
    log: Log = []
    before, NOTING.log = NOTING.log, log
    try:
        yield log
    finally:
        NOTING.log = before


def stream_on(device: torch.device) -> int:
    """The current stream, as kernels take it."""
    stream: int = triton.runtime.driver.active.get_current_stream(device.index)
    return stream


def run(
    kernel: Any,
    grid: tuple[int, ...],
    *args: Any,
    num_warps: int,
    registers: int | None = None,
    **constants: Any,
) -> None:
    """Run `kernel(*args, **constants)`, on Triton's current device.

    Triton takes some 40 us from arguments to a compiled kernel, longer than a short kernel runs.
    So that way is gone once for each combination of what it depends on: constants, types, whether
    a pointer is a multiple of 16, and whether an integer has 32 bits; all kernels here leave
    other properties of integers alone (`do_not_specialize`).

    Args:
        kernel: A jitted function whose constants come last, in the order of its parameters.
        grid: Programs along each axis.
        args: Tensors and integers.
        num_warps: Warps of a program.
        registers: Most registers of a thread.
        constants: The kernel's constants.
    """
    # AMD's compiler also goes by the size of a tensor, and takes no limit of registers
    if torch.version.hip or not isinstance(kernel, triton.JITFunction):
        kernel[grid](*args, **constants, num_warps=num_warps)
        return
    device = torch.cuda.current_device()
    # by identity: Triton takes longer to hash a kernel than this to find it
    key = (id(kernel), device, num_warps, registers, *constants.values(), *map(_kind, args))
    compiled = _COMPILED.get(key)
    if compiled is None:
        limit = {} if registers is None else {"maxnreg": registers}
        if list(constants) != kernel.arg_names[len(args) :]:
            raise TypeError(f"{kernel.__name__} takes {kernel.arg_names}, in this order")
        for p, x in zip(kernel.params, args, strict=False):
            if not (p.do_not_specialize or isinstance(x, torch.Tensor)):
                raise TypeError(f"{kernel.__name__} lacks {p.name} in do_not_specialize")
        compiled = kernel[grid](*args, **constants, num_warps=num_warps, **limit)
        _COMPILED[key] = compiled
    else:
        compiled[(*grid, 1, 1)[:3]](*args, *constants.values())
    if NOTING.log is not None:
        start = compiled[(*grid, 1, 1)[:3]]
        NOTING.log.append(Launch(start, (*args, *constants.values()), NOTING.is_beside))


def _kind(x: Any) -> Any:
    """What a compiled kernel depends on of an argument."""
    if type(x) is int:
        return -(1 << 31) <= x < 1 << 31
    if isinstance(x, torch.Tensor):
        return x.dtype, x.data_ptr() % 16 == 0
    return type(x)


def launch(
    kernel: Any, n: int, shape: Shape, device: torch.device, *args: Any, **constants: Any
) -> None:
    """Run `kernel(*args, **constants, BLOCK)` over `n` elements; nothing for none."""
    if n == 0:
        return
    grid = (-(-n // shape.block),)
    with on_device(device):
        run(
            kernel,
            grid,
            *args,
            **constants,
            BLOCK=shape.block,
            num_warps=shape.num_warps,
            registers=shape.registers,
        )


def wait(device: torch.device) -> None:
    """Until the current stream has done its work: what is kept serves any stream."""
    if device.type == "cuda":
        torch.cuda.current_stream(device).synchronize()


def flat(x: torch.Tensor, n_words: int) -> torch.Tensor:
    """`[..., *batch]` of `n_words` words an element as planes `[n_words, n]`, a view if it can."""
    # with no elements, -1 would be ambiguous
    return x.reshape(n_words, x.numel() // n_words)


def aligned(x: torch.Tensor) -> torch.Tensor:
    """Contiguous, and 16-byte loads may start where it does; a copy if it has to be."""
    x = x.contiguous()
    return x if x.data_ptr() % 16 == 0 else x.clone()


def planes(x: torch.Tensor) -> tuple[torch.Tensor, int]:
    """Planes `[W, n]` whose elements lie side by side, and the distance of two words.

    A slice of longer planes is taken as it is; anything else that is not contiguous is copied.
    """
    if x.shape[1] > 1 and x.stride(1) != 1:
        x = x.contiguous()
    return x, x.stride(0)
