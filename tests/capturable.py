"""Refuses what a CUDA graph cannot capture, on torch's device without memory instead of a GPU.

A launch sequence is captured with fixed addresses and values. So it may not read values back, take
numbers from the host that are not constants of its code, or make tensors as long as values say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

DEVICE = "meta"

_READS = {"_local_scalar_dense", "equal", "is_nonzero", "masked_select", "nonzero", "_unique2"}
"""Operations of a device whose results the host waits for."""
_FROM_HOST = {"tensor", "as_tensor", "asarray", "new_tensor", "frombuffer", "from_numpy"}


class CannotBeCapturedError(Exception):
    """Something that is done would break a capture, or be wrong when it is replayed."""


@contextmanager
def capturable() -> Iterator[None]:
    """Raises `CannotBeCapturedError` where something inside could not be captured.

    What Python does with numbers it cannot see: that a program is the same for all values.
    """
    with _Functions(), _Operations():  # type: ignore[no-untyped-call]
        yield


class _Functions(TorchFunctionMode):
    """What makes tensors of the host's numbers, which the dispatcher is not told of."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        name = func.__name__
        if name in _FROM_HOST:
            raise CannotBeCapturedError(f"{name}: numbers come from the host")
        if name in ("__getitem__", "__setitem__"):
            index = args[1] if isinstance(args[1], tuple) else (args[1],)
            # anything else that is a number for each place would be copied to the device
            if any(hasattr(x, "__len__") and not isinstance(x, torch.Tensor) for x in index):
                raise CannotBeCapturedError(f"{name}: places come from the host")
        return func(*args, **(kwargs or {}))


class _Operations(TorchDispatchMode):  # type: ignore[no-untyped-call]
    def __torch_dispatch__(
        self,
        func: Callable[..., Any],
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        given = [x for x in tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor)]
        here = [x for x in given if x.device.type == DEVICE]
        if here and func.__name__.partition(".")[0] in _READS:
            raise CannotBeCapturedError(f"{func}: the host waits for values")
        # a single number is an argument of a kernel
        if here and any(x.ndim for x in given if x.device.type != DEVICE):
            raise CannotBeCapturedError(f"{func}: a tensor of the host meets one of the device")
        try:
            out = func(*args, **(kwargs or {}))
        except (NotImplementedError, RuntimeError) as e:
            raise CannotBeCapturedError(f"{func}: {e}") from e
        made = [x for x in tree_leaves(out) if isinstance(x, torch.Tensor)]
        if given and any(x.device != given[0].device for x in made):
            raise CannotBeCapturedError(f"{func}: copies from one device to another")
        return out
