"""Compiles kernels for a GPU that is not there, and reads what the machine code needs.

A module of kernels adds its cases to `CASES`. Arguments named `*_ptr` point to int32, all other
arguments that are no constants are int32. `python -m triton_kernels.ahead_of_time`, with `src`
and `tests` on the path, compiles everything and rewrites the allowances.
"""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from torchzk.params.fields import FP, FR
from torchzk.triton_kernels import elementwise, fp2, inverse
from torchzk.triton_kernels.code import FieldCode, field_code
from torchzk.triton_kernels.tuning import Shape, shape_for
from triton_kernels import ntt_cases

ARCHS = (80, 86, 89, 90, 120)
ALLOWANCES = Path(__file__).parent / "allowances.json"
# registers and stack bytes by architecture, of every case compiled by the tests of this process
COMPILED: dict[str, dict[int, tuple[int, int]]] = {}
_CUOBJDUMP = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"


@dataclass(frozen=True)
class Case:
    """One kernel with its constants."""

    name: str
    kernel: Any
    shape: Shape
    constants: dict[str, Any] = field(default_factory=dict)

    def resources(self, arch: int) -> tuple[int, int]:
        """Registers and bytes of stack a thread needs; a stack means spills, or worse."""
        constants = {**self.constants, "BLOCK": self.shape.block}
        signature = {
            name: "constexpr" if name in constants else "*i32" if name.endswith("_ptr") else "i32"
            for name in self.kernel.arg_names
        }
        compiled = triton.compile(
            ASTSource(self.kernel, signature, constants),
            target=GPUTarget("cuda", arch, 32),
            options={"num_warps": self.shape.num_warps},
        )
        with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
            file.write(compiled.asm["cubin"])
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


SOURCES: tuple[Callable[[], Iterator[Case]], ...] = (_field_cases, _ntt_cases)
CASES = {case.name: case for source in SOURCES for case in source()}


def allowances() -> dict[str, dict[str, int]]:
    """Bytes of stack allowed, by case and architecture; a case that is not there has none."""
    return json.loads(ALLOWANCES.read_text())


def record() -> None:
    """Allow what is needed now, where that is anything."""
    allowed: dict[str, dict[str, int]] = {}
    for name, case in CASES.items():
        for arch in ARCHS:
            registers, stack = case.resources(arch)
            print(f"{name:44} sm_{arch:<4} {registers:4} registers {stack:5} B stack", flush=True)
            if stack:
                allowed.setdefault(name, {})[str(arch)] = stack
    ALLOWANCES.write_text(json.dumps(allowed, indent=1) + "\n")


if __name__ == "__main__":
    record()
