"""Compiles kernels for a GPU that is not there, and reads what the machine code needs.

A module of kernels adds its cases to `SOURCES`. Arguments named `*_ptr` point to int32, others do
if the case says so; what remains and is no constant is int32. `record_allowances.py` compiles
everything, or the cases that it is told, and rewrites the allowances.
"""

from __future__ import annotations

import contextlib
import io
import json
import re
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from torchzk.params.fields import FP, FR
from torchzk.triton_kernels import elementwise, fp2, inverse, rate
from torchzk.triton_kernels.code import FieldCode, field_code
from torchzk.triton_kernels.tuning import Shape, shape_for
from triton_kernels import asm_blocks, curve_cases, ntt_cases, witness_cases

ARCHS = (80, 86, 89, 90, 120)
ALLOWANCES = Path(__file__).parent / "allowances.json"
_CUOBJDUMP = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"


class Resources(NamedTuple):
    """What a thread needs: registers, and bytes of stack, of spill stores and of spill loads."""

    registers: int
    stack: int = 0
    stores: int = 0
    loads: int = 0

    def __str__(self) -> str:
        spills = f" ({self.stack} B stack, spills {self.stores}/{self.loads} B)"
        return f"{self.registers}{spills if self.stack else ''}"


# by case and architecture: all that was compiled for the tests of this process
COMPILED: dict[str, dict[int, Resources]] = {}


@dataclass(frozen=True)
class Case:
    """One kernel with its constants, as it is launched."""

    name: str
    kernel: Any
    shape: Shape
    constants: dict[str, Any] = field(default_factory=dict)
    pointers: dict[str, str] = field(default_factory=dict)
    """Types of arguments that point, beside those named `*_ptr`."""
    slow: str = ""
    """Why it is left to runs with --full, if it is."""

    def resources(self, arch: int) -> Resources:
        """What a thread needs on `arch`; a stack means spills, or worse."""
        made = self._compiled(arch).asm
        lost = asm_blocks.overwritten(made["ptx"])
        assert not lost, f"inline PTX overwrites arguments: {sorted(lost)[:9]}"
        registers, stack = _registers_and_stack(made["cubin"])
        return Resources(registers, stack, *(self._spills(arch) if stack else ()))

    def _compiled(self, arch: int) -> Any:
        constants = {**self.constants, "BLOCK": self.shape.block}
        signature = {name: self._type(name, constants) for name in self.kernel.arg_names}
        # allocations start at multiples of 16 bytes, and so do the views that kernels are given
        attributes = {
            (i,): [["tt.divisibility", 16]]
            for i, kind in enumerate(signature.values())
            if kind.startswith("*")
        }
        options: dict[str, Any] = {"num_warps": self.shape.num_warps}
        if self.shape.registers is not None:
            options["maxnreg"] = self.shape.registers
        return triton.compile(
            ASTSource(self.kernel, signature, constants, attributes),
            target=GPUTarget("cuda", arch, 32),
            options=options,
        )

    def _type(self, name: str, constants: dict[str, Any]) -> str:
        if name in constants:
            return "constexpr"
        return self.pointers.get(name, "*i32" if name.endswith("_ptr") else "i32")

    def _spills(self, arch: int) -> tuple[int, int]:
        """Bytes of spill stores and of spill loads, from the log of ptxas."""
        log = io.StringIO()
        with triton.knobs.compilation.scope(), triton.knobs.nvidia.scope():
            triton.knobs.compilation.always_compile = True
            triton.knobs.nvidia.dump_ptxas_log = True
            with contextlib.redirect_stdout(log):
                self._compiled(arch)
        found = re.findall(r"(\d+) bytes spill stores, (\d+) bytes spill loads", log.getvalue())
        assert found, log.getvalue()
        return max((int(stores), int(loads)) for stores, loads in found)


def _registers_and_stack(cubin: bytes) -> tuple[int, int]:
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        dump = subprocess.run(
            [str(_CUOBJDUMP), "--dump-resource-usage", file.name],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
    found = re.search(r"REG:(\d+) STACK:(\d+)", dump)
    assert found, dump
    return int(found[1]), int(found[2])


def _field_cases() -> Iterator[Case]:
    codes = [
        field_code(f, degree, variant)
        for variant in ("ptx", "plain")
        for f, degree in ((FR, 1), (FP, 1), (FP, 2))
    ]
    for code in codes:
        yield from _of_code(code)


def _of_code(code: FieldCode) -> Iterator[Case]:
    tag = f"{code.variant} {code.field.name}{'^2' if code.degree == 2 else ''}"

    def case(op: str, kernel: Any, kind: str = "elementwise", **constants: Any) -> Case:
        shape = shape_for(kind, code.L, 90)
        return Case(f"{tag} {op}", kernel, shape, {"F": code, **constants})

    for op in ("add", "sub", "mul"):
        yield case(op, elementwise.binary_kernel, OP=op)
    for op in ("neg", "sqr"):
        yield case(op, elementwise.unary_kernel, OP=op)
    for op in ("mul", "sqr", "add") if code.degree == 1 else ("mul",) * (code.variant == "ptx"):
        unrolled = 8 if (op, code.variant) == ("add", "ptx") else 1
        yield case(f"chain {op}", rate.chain_kernel, OP=op, UNROLLED=unrolled)
    if code.degree == 1:
        yield case("scale", elementwise.scale_kernel)
        yield case("inverse products", inverse.products_kernel, "inverse")
        yield case("inverse back", inverse.inverses_kernel, "inverse")
        yield case("inverse power", inverse.fermat_kernel, "fermat")
    else:
        yield case("inverse norm", fp2.norm_kernel)
        yield case("inverse conjugate", fp2.conjugate_kernel)


def _ntt_cases() -> Iterator[Case]:
    for name, kernel, shape, constants in ntt_cases.kernels():
        yield Case(f"ntt {name}", kernel, shape, constants)


def _curve_cases() -> Iterator[Case]:
    for name, kernel, shape, constants, slow in curve_cases.kernels():
        yield Case(name, kernel, shape, constants, curve_cases.pointers(kernel), slow=slow)


def _witness_cases() -> Iterator[Case]:
    for name, kernel, shape, constants, pointers, slow in witness_cases.kernels():
        yield Case(name, kernel, shape, constants, pointers, slow)


SOURCES: tuple[Callable[[], Iterator[Case]], ...] = (
    _field_cases,
    _ntt_cases,
    _curve_cases,
    _witness_cases,
)
CASES = {case.name: case for source in SOURCES for case in source()}


def measure(name: str, arch: int) -> Resources:
    """What a case needs on an architecture."""
    return CASES[name].resources(arch)


def allowances() -> dict[str, dict[str, list[int]]]:
    """Stack, spill stores and loads allowed, in bytes, by case and architecture; or else none."""
    return json.loads(ALLOWANCES.read_text())
