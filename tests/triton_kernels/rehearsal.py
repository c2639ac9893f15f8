"""What Triton is asked to compile, found without a GPU: launches that end before the compiler.

Host code runs as it does on a device; its tensors are on the CPU or on `meta`, and what kernels
should have written is zero.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from torchzk.triton_kernels import launch, variants
from triton_kernels import discovery

ARCH = 90
# no device's number, so that nobody's kernels are found or left there
_DEVICE = 1 << 20


class _Driver:
    """As much of a GPU as keys depend on."""

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("cuda", ARCH, 32)

    def get_current_device(self) -> int:
        return _DEVICE

    def get_current_stream(self, device: int) -> int:
        return 0


class _Nothing:
    """A kernel that does nothing."""

    function = packed_metadata = None

    def launch_metadata(self, *args: Any) -> None:
        pass

    def run(self, *args: Any) -> None:
        pass

    def __getitem__(self, grid: Sequence[int]) -> Any:
        return self.run


def _zeroed(make: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """A maker of tensors that hold zeros, not what was there before."""
    return lambda *args, **kwargs: make(*args, **kwargs).zero_()


@contextmanager
def pretended() -> Iterator[None]:
    """Triton takes a GPU for granted that is not there. What it compiles is forgotten after."""
    triton.runtime.driver.set_active(_Driver())
    try:
        yield
    finally:
        triton.runtime.driver._active = None
        for kernel in discovery.kernels().values():
            kernel.device_caches.pop(_DEVICE, None)


@contextmanager
def rehearsing() -> Iterator[dict[str, str]]:
    """The hashes that Triton's cache goes by, each with the kernel and what it depends on."""
    asked: dict[str, str] = {}

    def compile_(
        kernel: Any,
        key: str,
        signature: Any,
        device: int,
        constants: Any,
        options: Any,
        attributes: Any,
        warmup: bool,
    ) -> _Nothing:
        source = ASTSource(kernel, signature, constants, attributes)
        name = f"{kernel.__name__} {signature} {constants} {attributes} {options}"
        asked[f"{source.hash()} {options.hash()}"] = name
        return _Nothing()

    choice = variants.Choice("ptx", "no device", triton.__version__)
    with ExitStack() as stack:
        stack.enter_context(pretended())
        stack.enter_context(patch.object(triton.JITFunction, "_do_compile", compile_))
        stack.enter_context(patch.object(torch.cuda, "current_device", lambda: _DEVICE))
        stack.enter_context(patch.object(variants, "choose", lambda device: choice))
        stack.enter_context(patch.dict(launch._COMPILED, clear=True))
        for owner, name in ((torch, "empty"), (torch, "empty_like"), (torch.Tensor, "new_empty")):
            stack.enter_context(patch.object(owner, name, _zeroed(getattr(owner, name))))
        yield asked
