"""Lets Triton's interpreter run the package's inline PTX: numpy on the blocks, word by word.

The interpreter has no inline assembly. `install` gives it the integer subset that
`torchzk.triton_kernels.ptx` writes, for all lanes at once, with one carry flag each, and loads and
stores of 16 bytes. An instruction outside the subset raises.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import triton.language as tl
from triton.runtime import interpreter

Words = npt.NDArray[Any]
_MASK = np.uint64(0xFFFFFFFF)
_WORD = np.uint64(32)
_SIGN = np.uint64(63)


class Machine:
    """Registers and the carry flag of all lanes."""

    def __init__(self, n_results: int, arguments: Sequence[Words]) -> None:
        self.shape = np.broadcast_shapes(*(a.shape for a in arguments))
        self.registers: dict[str, Words] = {
            f"${n_results + i}": np.broadcast_to(a.view(np.uint32), self.shape).astype(np.uint64)
            for i, a in enumerate(arguments)
        }
        self.carry: Words = np.zeros(self.shape, np.uint64)

    def read(self, operand: str) -> Words:
        value = self.registers.get(operand)
        if value is None:
            value = np.full(self.shape, int(operand, 0), np.uint64)
        return value

    def step(self, op: str, *operands: str) -> None:
        """One instruction; behind a predicate in the lanes where it holds."""
        if not op.startswith("@"):
            self._compute(op, *operands)
            return
        holds, destination = self.read(op[1:]) != 0, operands[1]
        before, carry = self.read(destination), self.carry
        self._compute(*operands)
        self.registers[destination] = np.where(holds, self.registers[destination], before)
        self.carry = np.where(holds, self.carry, carry)

    def _compute(self, op: str, destination: str, *operands: str) -> None:
        name, *flags = op.split(".")
        x = [self.read(o) for o in operands]
        carry: Words | np.uint64 = np.uint64(0)
        if name in ("addc", "subc", "madc"):
            carry = self.carry
            name = name[:-1]
        if name in ("mad", "mul"):
            product = x[0] * x[1]
            x = [product & _MASK if "lo" in flags else product >> _WORD, *x[2:]]
            name = "add" if name == "mad" else "mov"
        if name in ("add", "sub"):
            total = x[0] + x[1] + carry if name == "add" else x[0] - x[1] - carry
            if "cc" in flags:
                self.carry = total >> (_WORD if name == "add" else _SIGN)
            result = total & _MASK
        else:
            result = _PLAIN[name, *flags[:-1]](*x)
        self.registers[destination] = result


_PLAIN: dict[tuple[str, ...], Callable[..., Words]] = {
    ("mov",): lambda a: a,
    ("mov", "lo"): lambda a: a,
    ("mov", "hi"): lambda a: a,
    ("min",): np.minimum,
    ("and",): np.bitwise_and,
    ("or",): np.bitwise_or,
    ("setp", "eq"): lambda a, b: (a == b).astype(np.uint64),
    ("setp", "ne"): lambda a, b: (a != b).astype(np.uint64),
    ("setp", "gt"): lambda a, b: (a > b).astype(np.uint64),
    ("selp",): lambda a, b, c: np.where(c != 0, a, b),
}


@cache
def parse(text: str) -> tuple[tuple[str, ...], ...]:
    """The instructions of an asm block, each its operation and operands."""
    statements = text.strip().removeprefix("{").removesuffix("}").split(";")
    split = (re.split(r"[\s,]+", s.strip()) for s in statements)
    return tuple(tuple(s) for s in split if s != [""] and s[0] != ".reg")


def run(text: str, n_results: int, arguments: Sequence[Words]) -> list[Words]:
    """The results of an asm block of `n_results` words for blocks of 32-bit arguments."""
    machine = Machine(n_results, arguments)
    with np.errstate(over="ignore"):
        for instruction in parse(text):
            machine.step(*instruction)
    return [machine.registers[f"${i}"].astype(np.uint32) for i in range(n_results)]


def access(text: str, n_results: int, arguments: Sequence[Words]) -> list[Words]:
    """Loads `n_results` words from each address, the first argument; or stores the others there."""
    assert ".v4.u32" in text
    addresses = [int(a) for a in arguments[0].ravel()]
    if text.startswith("ld"):
        places = [int(place or 0) for place in re.findall(r"\[\$\d+(?:\+(\d+))?\]", text)]
        assert n_results == 4 * len(places)
        data = np.array([[_words(a + b, 4) for b in places] for a in addresses])
        return list(data.reshape(len(addresses), -1).T.copy())
    # words in fours, and behind them a predicate if the store has one
    values = np.array([a.view(np.uint32).ravel() for a in arguments[1:]])
    n, predicated = divmod(len(values), 4)
    stored = values[-1] if predicated else np.ones(len(addresses))
    for address, row, there in zip(addresses, values[: 4 * n].T, stored, strict=True):
        if there:
            _words(address, 4 * n)[:] = row
    return [np.zeros(len(addresses), np.uint32)]


def _words(address: int, n: int) -> Words:
    assert address % 16 == 0
    return np.ctypeslib.as_array((ctypes.c_uint32 * n).from_address(address))


class _Results:
    def __init__(self, results: Sequence[Words]) -> None:
        self._handles = [interpreter.TensorHandle(r, tl.uint32) for r in results]

    def get_result(self, i: int) -> interpreter.TensorHandle:
        return self._handles[i]


def install() -> None:
    """Teach the interpreter inline PTX, and tuples of results to concatenate as compiled ones."""

    def create_inline_asm(
        self: Any, text: str, constraints: str, arguments: Any, types: Any, is_pure: bool, pack: int
    ) -> _Results:
        assert constraints.count("=") == len(types) and pack == 1
        made = access if ".global" in text else run
        return _Results(made(text, len(types), [a.data for a in arguments]))

    interpreter.InterpreterBuilder.create_inline_asm = create_inline_asm
    tl.tuple.__radd__ = lambda self, other: tl.tuple([*other, *self.values])
