"""Adds 16-byte loads and stores to the inline PTX that the interpreter understands."""

from __future__ import annotations

import ctypes
import re

import numpy as np
import triton.language as tl
from triton.runtime import interpreter

from triton_kernels import ptx_interpreter


def _words(address: int, n: int) -> np.ndarray:
    assert address % 16 == 0
    return np.ctypeslib.as_array((ctypes.c_uint32 * n).from_address(address))


def install() -> None:
    """Install on top of `ptx_interpreter`, once."""
    arithmetic = interpreter.InterpreterBuilder.create_inline_asm

    def create_inline_asm(self, text, constraints, arguments, types, is_pure, pack):
        if ".global" not in text:
            return arithmetic(self, text, constraints, arguments, types, is_pure, pack)
        assert ".v4.u32" in text
        addresses = [int(a) for a in arguments[0].data.ravel()]
        if text.startswith("ld"):
            places = [int(place or 0) for place in re.findall(r"\[\$\d+(?:\+(\d+))?\]", text)]
            assert len(types) == 4 * len(places)
            data = np.array([[_words(a + b, 4) for b in places] for a in addresses])
            data = data.reshape(len(addresses), -1).T.copy()
        else:
            # words in fours, and behind them a predicate if the store has one
            values = np.array([a.data.view(np.uint32).ravel() for a in arguments[1:]])
            n, predicated = divmod(len(values), 4)
            stored = values[-1] if predicated else np.ones(len(addresses))
            for address, row, there in zip(addresses, values[: 4 * n].T, stored, strict=True):
                if there:
                    _words(address, 4 * n)[:] = row
            data = np.zeros((1, len(addresses)), np.uint32)
        return ptx_interpreter._Results([interpreter.TensorHandle(r, tl.uint32) for r in data])

    interpreter.InterpreterBuilder.create_inline_asm = create_inline_asm
