"""Calls every operation twice, and compares all bits: what a test on a GPU does, it does twice."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import wraps
from types import ModuleType
from typing import Any
from unittest.mock import patch

import torch


def twice(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, called again with the same arguments; both results have to be the same.

    Of a function that returns None, what it wrote is its last argument, which may be what it read
    as well: the second call finds it as the first did.
    """

    @wraps(function)
    def both(*args: Any, **kwargs: Any) -> Any:
        last = args[-1] if args and isinstance(args[-1], torch.Tensor) else None
        before = None if last is None else last.clone()
        first = function(*args, **kwargs)
        if first is None and last is not None and before is not None:
            kept = last.clone()
            last.copy_(before)
            function(*args, **kwargs)
            second = last
        else:
            second, kept = function(*args, **kwargs), first
        assert _same(kept, second), f"{function.__name__}: the second call differs from the first"
        return first

    return both


@contextmanager
def calling_twice(package: ModuleType, modules: Iterable[ModuleType]) -> Iterator[None]:
    """Put `twice` around the operations of `package` (`__all__`) wherever `modules` name them.

    Modules of a package among the values of `modules` count as well: tests call `kernels.add`.
    """
    operations = {id(value): twice(value) for n in package.__all__ if (value := vars(package)[n])}
    with ExitStack() as stack:
        for module in {id(m): m for m in modules}.values():
            for name, value in list(vars(module).items()):
                if id(value) in operations:
                    stack.enter_context(patch.object(module, name, operations[id(value)]))
        yield


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, torch.Tensor):
        return isinstance(b, torch.Tensor) and torch.equal(a, b)
    return type(a) is type(b) and bool(a == b)
