"""Lets Triton's interpreter run the package's inline PTX: numpy on the blocks, word by word.

The interpreter has no inline assembly. `install` gives it the integer subset that
`torchzk.triton_kernels.ptx` writes, for all lanes at once, with one carry flag each. An
instruction outside the subset raises.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache

import numpy as np
import triton.language as tl
from triton.runtime import interpreter

Words = np.ndarray
_MASK = np.uint64(0xFFFFFFFF)
_WORD = np.uint64(32)
_SIGN = np.uint64(63)


class Machine:
    """Registers and the carry flag of all lanes."""

    def __init__(self, n_results: int, arguments: Sequence[Words]) -> None:
        self.shape = np.broadcast_shapes(*(a.shape for a in arguments))
        self.registers = {
            f"${n_results + i}": np.broadcast_to(a.view(np.uint32), self.shape).astype(np.uint64)
            for i, a in enumerate(arguments)
        }
        self.carry = np.zeros(self.shape, np.uint64)

    def read(self, operand: str) -> Words:
        value = self.registers.get(operand)
        if value is None:
            value = np.full(self.shape, int(operand, 0), np.uint64)
        return value

    def step(self, op: str, destination: str, *operands: str) -> None:
        name, *flags = op.split(".")
        x = [self.read(o) for o in operands]
        if name.endswith("c") and name in ("addc", "subc", "madc"):
            carry = self.carry
            name = name[:-1]
        else:
            carry = np.uint64(0)
        if name == "mad" or name == "mul":
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


class _Results:
    def __init__(self, handles: list[interpreter.TensorHandle]) -> None:
        self.handles = handles

    def get_result(self, i: int) -> interpreter.TensorHandle:
        return self.handles[i]


def install() -> None:
    """Teach the interpreter inline PTX, and tuples of results to concatenate as compiled ones."""

    def create_inline_asm(self, text, constraints, arguments, types, is_pure, pack):
        assert constraints.count("=") == len(types) and pack == 1
        outs = run(text, len(types), [a.data for a in arguments])
        return _Results([interpreter.TensorHandle(o, tl.uint32) for o in outs])

    interpreter.InterpreterBuilder.create_inline_asm = create_inline_asm
    tl.tuple.__radd__ = lambda self, other: tl.tuple([*other, *self.values])
