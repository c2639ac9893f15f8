"""Adds 16-byte loads and stores to the inline PTX that the interpreter understands."""

from __future__ import annotations

import ctypes
import re

import numpy as np
import triton.language as tl
from triton.runtime import interpreter

from triton_kernels import ptx_interpreter

_ACCESS = re.compile(r"(ld|st)\.global\S*\.v4\.u32")


def _words(address: int, n: int) -> np.ndarray:
    return np.ctypeslib.as_array((ctypes.c_uint32 * n).from_address(address))


def install() -> None:
    """Teach the interpreter all of the package's inline PTX."""
    ptx_interpreter.install()
    arithmetic = interpreter.InterpreterBuilder.create_inline_asm

    def create_inline_asm(self, text, constraints, arguments, types, is_pure, pack):
        if not _ACCESS.match(text):
            return arithmetic(self, text, constraints, arguments, types, is_pure, pack)
        addresses = [int(a) for a in arguments[0].data]
        assert all(a % 16 == 0 for a in addresses)
        if text.startswith("ld"):
            data = np.array([_words(a, len(types)) for a in addresses]).T.copy()
        else:
            values = np.array([a.data.view(np.uint32) for a in arguments[1:]]).T
            for address, row in zip(addresses, values, strict=True):
                _words(address, len(row))[:] = row
            data = np.zeros((1, len(addresses)), np.uint32)
        handles = [interpreter.TensorHandle(row, tl.uint32) for row in data]
        return ptx_interpreter._Results(handles)

    interpreter.InterpreterBuilder.create_inline_asm = create_inline_asm
