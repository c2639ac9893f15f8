"""Puts an element in its place among its siblings, or picks one of many.

The order of the picks is fixed by the keys, so it is written once, over what a pick is: a
constraint while recording, a selection on tensors while computing the witness. Source:
spec/gadgets.md section 7.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

import torch

from torchzk.circuits.gadgets import boolean
from torchzk.circuits.gadgets.boolean import Boolean
from torchzk.circuits.gadgets.num import bit_wires
from torchzk.circuits.recorder import ConstraintSystem, Variable, linear

V = TypeVar("V")
B = TypeVar("B")
INSERT_WIRES = {2: 2, 4: 8, 8: 22}
"""Variables, and as many constraints, by number of places."""


class _Picker(Protocol[V, B]):
    def pick(self, condition: B, a: V, b: V) -> V:
        """a where the condition holds, else b."""

    def nor(self, x: B, y: B) -> B: ...
    def both(self, x: B, y: B) -> B: ...


def insert(
    cs: ConstraintSystem, element: Variable, bits: Sequence[Boolean], siblings: Sequence[Variable]
) -> list[Variable]:
    """The children of a node: `element` at the index of `bits`, siblings around it in order.

    Args:
        cs: Takes the constraints.
        element: What to insert.
        bits: The index, least significant bit first, log2(places) of them.
        siblings: 1, 3 or 7 of them.

    Returns:
        2, 4 or 8 variables, all of them new.
    """
    return _arrange(_Recorder(cs), element, bits, siblings)


def insert_wires(
    element: torch.Tensor, bits: torch.Tensor, siblings: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """The values of `insert`, for a batch.

    Args:
        element: int32 `[8, *batch]`.
        bits: bool `[log2 places, *batch]`.
        siblings: int32 `[8, places - 1, *batch]`.

    Returns:
        The new variables in order, `[8, n, *batch]`, and the children, `[8, places, *batch]`.
    """
    log = _Selector()
    children = _arrange(log, element, bits.unbind(0), siblings.unbind(1))
    return torch.stack(log.wires, dim=1), torch.stack(children, dim=1)


def pick(cs: ConstraintSystem, condition: Boolean, a: Variable, b: Variable) -> Variable:
    """A new variable: a where the condition holds, else b."""
    out = cs.alloc()
    cs.enforce(linear((b, 1), (a, -1)), boolean.lc(condition), {b: 1, out: -1})
    return out


def select(cs: ConstraintSystem, choices: Sequence[Variable], bits: Sequence[Boolean]) -> Variable:
    """The one of 2^k choices that k bits name, least significant first; 2^k - 1 constraints."""
    left = list(choices)
    for bit in reversed(bits):
        half = len(left) // 2
        left = [pick(cs, bit, left[half + j], left[j]) for j in range(half)]
    (out,) = left
    return out


def select_wires(choices: torch.Tensor, bits: torch.Tensor) -> torch.Tensor:
    """The values that `select` allocates, for a batch that shares its choices.

    Args:
        choices: int32 `[8, 2^k]`.
        bits: bool `[k, n]`, least significant first.

    Returns:
        int32 `[8, 2^k - 1, n]`, the last the choice that the bits name.
    """
    left = choices.unsqueeze(2).expand(-1, -1, bits.shape[1])
    wires = []
    for bit in reversed(bits.unbind(0)):
        half = left.shape[1] // 2
        left = torch.where(bit, left[:, half:], left[:, :half])
        wires.append(left)
    return torch.cat(wires, dim=1)


class _Recorder:
    """Picks that allocate and constrain."""

    def __init__(self, cs: ConstraintSystem) -> None:
        self._cs = cs

    def pick(self, condition: Boolean, a: Variable, b: Variable) -> Variable:
        return pick(self._cs, condition, a, b)

    def nor(self, x: Boolean, y: Boolean) -> Boolean:
        return self.both(boolean.negate(x), boolean.negate(y))

    def both(self, x: Boolean, y: Boolean) -> Boolean:
        return boolean.conjunction(self._cs, x, y)


class _Selector:
    """Picks on values, which notes what the recorder would have allocated."""

    def __init__(self) -> None:
        self.wires: list[torch.Tensor] = []

    def pick(self, condition: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        self.wires.append(torch.where(condition, a, b))
        return self.wires[-1]

    def nor(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return self._note(~(x | y))

    def both(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return self._note(x & y)

    def _note(self, bit: torch.Tensor) -> torch.Tensor:
        self.wires.append(bit_wires(bit))
        return bit


def _arrange(log: _Picker[V, B], x: V, bits: Sequence[B], siblings: Sequence[V]) -> list[V]:
    p = log.pick
    match len(siblings):
        case 1:
            (b0,), (b,) = bits, siblings
            return [p(b0, b, x), p(b0, x, b)]
        case 3:
            (b0, b1), (b, c, d) = bits, siblings
            return [
                p(b1, b, p(b0, b, x)),
                p(b1, c, p(b0, x, b)),
                p(b1, p(b0, d, x), c),
                p(b1, p(b0, x, d), d),
            ]
        case 7:
            return _arrange_8(log, x, bits, siblings)
    raise ValueError(f"no insertion among {len(siblings)} siblings")


def _arrange_8(log: _Picker[V, B], x: V, bits: Sequence[B], siblings: Sequence[V]) -> list[V]:
    b0, b1, b2 = bits
    b, c, d, e, f, g, h = siblings
    p = log.pick
    nor, both = log.nor(b0, b1), log.both(b0, b1)
    return [
        p(b2, b, p(nor, x, b)),
        p(b2, c, p(b1, c, p(b0, x, b))),
        p(b2, d, p(b1, p(b0, d, x), c)),
        p(b2, e, p(both, x, d)),
        p(b2, p(nor, x, f), e),
        p(b2, p(b1, g, p(b0, x, f)), f),
        p(b2, p(b1, p(b0, h, x), g), g),
        p(b2, p(both, x, h), h),
    ]
