"""What makes good input bad: changes of a parsed job or C1 output, in place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torchzk.params.fields import FR

Change = Callable[[dict[str, Any]], object]
R = list(FR.modulus.to_bytes(32, "little"))
"""The bytes of r, which is no field element."""


def put(**values: object) -> Change:
    return lambda said: said.update(values)


def drop(key: str) -> Change:
    return lambda said: said.pop(key)


def put_inside(value: Any, path: str, new: object) -> None:
    """Put `new` at a dotted path inside a parsed value."""
    *steps, last = (int(x) if x.isdigit() else x for x in path.split("."))
    for step in steps:
        value = value[step]
    value[last] = new
