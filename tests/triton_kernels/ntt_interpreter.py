"""Adds to the interpreter's inline PTX what the transforms use: predicates and 16-byte access."""

from __future__ import annotations

import ctypes

import numpy as np
import triton.language as tl
from triton.runtime import interpreter

from triton_kernels import ptx_interpreter


def _words(address: int, n: int) -> np.ndarray:
    assert address % 16 == 0
    return np.ctypeslib.as_array((ctypes.c_uint32 * n).from_address(address))


def install() -> None:
    """Install on top of `ptx_interpreter`; twice is once."""
    machine = ptx_interpreter.Machine
    if hasattr(machine, "step_always"):
        return
    ptx_interpreter.install()
    always = machine.step
    ptx_interpreter._PLAIN["setp", "gt"] = lambda a, b: (a > b).astype(np.uint64)

    def step(self, op: str, *operands: str) -> None:
        if not op.startswith("@"):
            return always(self, op, *operands)
        holds = self.read(op[1:]) != 0
        name, destination, *rest = operands
        before, carry = self.read(destination), self.carry
        always(self, name, destination, *rest)
        self.registers[destination] = np.where(holds, self.registers[destination], before)
        self.carry = np.where(holds, self.carry, carry)
        return None

    machine.step_always, machine.step = always, step
    arithmetic = interpreter.InterpreterBuilder.create_inline_asm

    def create_inline_asm(self, text, constraints, arguments, types, is_pure, pack):
        if ".global" not in text:
            return arithmetic(self, text, constraints, arguments, types, is_pure, pack)
        addresses = [int(a) for a in arguments[0].data.ravel()]
        if text.startswith("ld"):
            data = np.array([_words(a, len(types)) for a in addresses]).T.copy()
        else:
            values = np.array([a.data.view(np.uint32) for a in arguments[1:]]).T
            for address, row in zip(addresses, values, strict=True):
                if row[-1]:
                    _words(address, len(row) - 1)[:] = row[:-1]
            data = np.zeros((1, len(addresses)), np.uint32)
        return ptx_interpreter._Results([interpreter.TensorHandle(r, tl.uint32) for r in data])

    interpreter.InterpreterBuilder.create_inline_asm = create_inline_asm
