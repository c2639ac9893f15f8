"""The transforms' kernels as they are launched, for the compiler alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torchzk.params.fields import FR
from torchzk.triton_kernels import ntt_passes, ntt_split, twiddles
from torchzk.triton_kernels.code import Variant, field_code
from torchzk.triton_kernels.ntt_code import ntt_code
from torchzk.triton_kernels.tuning import Shape, shape_for

VARIANTS: tuple[Variant, ...] = ("ptx", "plain")


def kernels() -> Iterator[tuple[str, Any, Shape, dict[str, Any]]]:
    """Name, kernel, launch shape and constants of each case."""
    lanes, square = (shape_for(op, FR.n_limbs, 90) for op in ("ntt pass", "bit reversal"))
    for variant in VARIANTS:
        code = ntt_code(field_code(FR, 1, variant))
        most = {"RL": code.max_radix_log, "T": code}
        unit = {"UNIT": True, "SHORT": True, "IN_ROWS": False, "OUT_ROWS": False, **most}
        rows = {"UNIT": False, "SHORT": True, "IN_ROWS": True, "OUT_ROWS": True, **most}
        forth, back = ntt_passes.forth_kernel, ntt_passes.back_kernel
        if variant == "ptx":
            # plain, addresses alone differ
            far = {**rows, "SHORT": False}
            yield f"{variant} forth, far", forth, lanes, {**far, "INVERSE": False, "COSET": False}
        plain_back = {"SCALED": False, "LAST": False}
        yield f"{variant} forth", forth, lanes, {**rows, "INVERSE": False, "COSET": False}
        yield f"{variant} forth, coset", forth, lanes, {**rows, "INVERSE": True, "COSET": True}
        yield f"{variant} forth, unit", forth, lanes, {**unit, "INVERSE": False, "COSET": False}
        coset = {**rows, **plain_back, "INVERSE": False, "COSET": True}
        yield f"{variant} back, coset", back, lanes, coset
        scaled = {**unit, "INVERSE": True, "COSET": False, "SCALED": True, "LAST": False}
        yield f"{variant} back, unit", back, lanes, scaled
        yield f"{variant} turn", ntt_passes.turn_kernel, lanes, most
        product = {**most, "UNIT": False, "ROWS": True, "B_ROWS": False}
        yield f"{variant} product", ntt_passes.product_kernel, lanes, product
        yield f"{variant} combine", ntt_passes.combine_kernel, lanes, {**most, "FINISHED": False}
        elementwise = shape_for("elementwise", FR.n_limbs, 90)
        for name, coset in (("", False), (", coset", True)):
            split = {"COSET": coset, "T": code}
            yield f"{variant} split{name}", ntt_split.split_kernel, elementwise, split
        yield f"{variant} join", ntt_split.join_kernel, elementwise, {"T": code}
        yield f"{variant} powers", twiddles.powers_kernel, elementwise, {"T": code}
        scale = twiddles.scale_by_powers_kernel
        yield f"{variant} coset scale", scale, elementwise, {"F": code.F}
    edge = (square.block.bit_length() - 1) // 2
    yield "reversal", ntt_passes.reverse_kernel, square, {"EDGE": edge}
