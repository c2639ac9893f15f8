"""The kernels of witnesses and of their products as they are launched, for the compiler alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torchzk.params.fields import FR
from torchzk.params.sha256 import IV
from torchzk.triton_kernels.code import Variant, field_code
from torchzk.triton_kernels.poseidon import THREADS, poseidon_kernel
from torchzk.triton_kernels.sha256 import digest_kernel
from torchzk.triton_kernels.sha256_steps import steps_kernel
from torchzk.triton_kernels.spmv import WARP, spmv_kernel
from torchzk.triton_kernels.tuning import Shape, shape_for
from torchzk.triton_kernels.values import (
    classes_kernel,
    first_unsatisfied_kernel,
    from_mont_at_kernel,
)

VARIANTS: tuple[Variant, ...] = ("ptx", "plain")

Kernel = tuple[str, Any, Shape, dict[str, Any], dict[str, str], str]


def kernels() -> Iterator[Kernel]:
    """Name, kernel, launch shape, constants, types of arguments that point, and why it is slow."""
    warp = Shape(WARP, 1, "spmv")
    states = Shape(THREADS, THREADS // 32, "poseidon")
    for variant in VARIANTS:
        code = field_code(FR, 1, variant)
        for lanes in (1, WARP):
            constants = {"LANES": lanes, "F": code}
            name = f"{variant} spmv, {lanes} lanes a row"
            yield name, spmv_kernel, warp, constants, {"imports_ptr": "*i64"}, ""
        values = shape_for("values", FR.n_limbs, 90)
        yield f"{variant} classes", classes_kernel, values, {"F": code}, {"out_ptr": "*u8"}, ""
        for indexed in (False, True):
            constants = {"INDEXED": indexed, "F": code}
            name = f"{variant} canonical{', by index' if indexed else ''}"
            yield name, from_mont_at_kernel, values, constants, {}, ""
        name, first = f"{variant} first unsatisfied", {"first_ptr": "*i64"}
        yield name, first_unsatisfied_kernel, values, {"F": code}, first, ""
        slow = "plain code, 10 s an architecture" if variant == "plain" else ""
        for wires in (False, True):
            constants = {"HALF": 4, "WIRES": wires, "LANES": 16, "F": code}
            name = f"{variant} poseidon{', wires' if wires else ''}"
            yield name, poseidon_kernel, states, constants, {}, slow
    pointers = {"out_ptr": "*u8", "messages_ptr": "*u8"}
    whole, steps = (shape_for(k, len(IV), 90) for k in ("sha256", "sha256 steps"))
    yield "sha256", digest_kernel, whole, {}, pointers, ""
    yield "sha256 steps", steps_kernel, steps, {}, {"out_ptr": "*i64"}, ""
