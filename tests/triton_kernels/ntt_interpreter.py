"""Adds to the interpreter's inline PTX what the transforms use: predicates."""

from __future__ import annotations

import numpy as np

from triton_kernels import ptx_interpreter


def install() -> None:
    """Teach its machine; twice is once."""
    machine = ptx_interpreter.Machine
    if hasattr(machine, "step_always"):
        return
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
