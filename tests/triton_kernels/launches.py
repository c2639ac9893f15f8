"""Which kernels were launched."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import triton

from torchzk.triton_kernels import launch
from triton_kernels import discovery


@contextmanager
def recorded() -> Iterator[set[int]]:
    """The ids of the kernels that are launched meanwhile, or captured."""
    found: set[int] = set()
    run = triton.JITFunction.run

    def noted(self: Any, *args: Any, **kwargs: Any) -> Any:
        found.add(id(self))
        return run(self, *args, **kwargs)

    # what was compiled before is started without Triton's help
    with patch.object(triton.JITFunction, "run", noted), patch.dict(launch._COMPILED, clear=True):
        yield found


def missing(launched: set[int]) -> list[str]:
    """The kernels of the package that were not launched, by `module.function`."""
    return sorted(
        name for name, kernel in discovery.kernels().items() if id(kernel) not in launched
    )
