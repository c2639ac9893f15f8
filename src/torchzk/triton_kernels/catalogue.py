"""Every kernel as the operations launch it, as data: what there is to compile before it is used.

What takes longest comes first. Sizes are no part of it: all lengths, and all domains of 2^12
elements and more, are launched with the constants that stand here. Arguments that a kernel does
not list in `do_not_specialize` point, to int32 if nothing else is said, and at multiples of 16
where it makes a difference. Chains that only measure are left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

import torch

from torchzk.params.fields import FP, FR
from torchzk.params.sha256 import IV
from torchzk.triton_kernels import (
    curve,
    elementwise,
    fp2,
    inverse,
    msm_buckets,
    msm_digits,
    msm_reduce,
    ntt_passes,
    ntt_split,
    pair_sums,
    rate,
    twiddles,
    values,
)
from torchzk.triton_kernels.code import Variant, field_code
from torchzk.triton_kernels.ntt import in_rows, passes
from torchzk.triton_kernels.ntt_code import NttCode, ntt_code
from torchzk.triton_kernels.poseidon import THREADS, poseidon_kernel
from torchzk.triton_kernels.sha256 import digest_kernel
from torchzk.triton_kernels.sha256_steps import steps_kernel
from torchzk.triton_kernels.spmv import WARP, spmv_kernel
from torchzk.triton_kernels.tuning import Shape, shape_for


@dataclass(frozen=True)
class Launch:
    """A kernel with its constants, as it is launched."""

    kernel: Any
    constants: Mapping[str, Any]
    """All of them, in the order of its parameters."""
    num_warps: int
    registers: int | None
    pointers: Mapping[str, torch.dtype]
    """What arguments point to that do not point to int32."""

    def arguments(self) -> list[Any]:
        """What stands for each argument before the constants: the type it points to, or 0."""
        return [
            0 if p.do_not_specialize else self.pointers.get(p.name, torch.int32)
            for p in self.kernel.params
            if not p.is_constexpr
        ]


# strides of pairs: named by index, of two tensors, of neighbours
_STRIDES = (0, 1, 2)
# lanes of a state of Poseidon, of arities 8 and 11, 2, and 4
_LANES = (16, 4, 8)
# from so many elements on, and whatever the remainder is of their logarithm
_LOG_SIZES = (12, 13, 14)


def launches(variant: Variant, arch: int) -> list[Launch]:
    """Every launch in one variant of the kernels on an architecture as in sm_90, each once."""
    found = [
        *_hashes(variant, arch),
        *_points(2, variant, arch),
        *_points(1, variant, arch),
        *_transforms(variant, arch),
        *_labels(arch),
        *_elements(variant, arch),
        *_values(variant, arch),
    ]
    return list({(x.kernel, *x.constants.items(), x.num_warps): x for x in found}.values())


def _launch(
    kernel: Any,
    shape: Shape,
    pointers: Mapping[str, torch.dtype] | None = None,
    **constants: Any,
) -> Launch:
    """One through `launch.launch`."""
    known = {**constants, "BLOCK": shape.block}
    # in the order of the parameters
    known = {p.name: known[p.name] for p in kernel.params if p.is_constexpr}
    return Launch(kernel, known, shape.num_warps, shape.registers, pointers or {})


def _points(degree: int, variant: Variant, arch: int) -> Iterator[Launch]:
    code = field_code(FP, degree, variant)
    sums, pairs, points = (shape_for(k, FP.n_limbs, arch) for k in ("sums", "pairs", "points"))
    yield _launch(msm_reduce.weigh_bits, sums, F=code)
    for affine in (False, True):
        yield _launch(msm_reduce.add_runs, sums, AFFINE=affine, F=code)
    flags = {"flags": torch.int8}
    for stride in _STRIDES:
        for kernel in (pair_sums.add_flagged, pair_sums.add_alone):
            yield _launch(kernel, pairs, flags, STRIDE=stride, F=code)
    yield _launch(msm_reduce.make_affine, sums, F=code)
    for stride in _STRIDES:
        for kernel in (pair_sums.finish_sums, pair_sums.multiply_runs):
            yield _launch(kernel, pairs, flags, STRIDE=stride, F=code)
    for kernel in (
        pair_sums.invert_each,
        pair_sums.split_inverses,
        pair_sums.multiply_elements,
    ):
        yield _launch(kernel, pairs, F=code)
    yield _launch(curve.satisfies, points, {"out": torch.bool}, F=code)
    yield _launch(curve.negate, points, F=code)
    yield _launch(pair_sums.copy_points, points, F=code)


def _hashes(variant: Variant, arch: int) -> Iterator[Launch]:
    code = field_code(FR, 1, variant)
    states, warp = Shape(THREADS, THREADS // 32, "poseidon"), Shape(WARP, 1, "spmv")
    for wires in (True, False):
        for lanes in _LANES:
            yield _launch(poseidon_kernel, states, HALF=4, WIRES=wires, LANES=lanes, F=code)
    whole, steps = (shape_for(k, len(IV), arch) for k in ("sha256", "sha256 steps"))
    yield _launch(digest_kernel, whole, {"out_ptr": torch.uint8, "messages_ptr": torch.uint8})
    yield _launch(steps_kernel, steps, {"out_ptr": torch.int64})
    for lanes in (WARP, 1):
        yield _launch(spmv_kernel, warp, {"imports_ptr": torch.int64}, LANES=lanes, F=code)


def _transforms(variant: Variant, arch: int) -> Iterator[Launch]:
    code = ntt_code(field_code(FR, 1, variant))
    lanes = shape_for("ntt pass", FR.n_limbs, arch)
    for log_n in _LOG_SIZES:
        all_passes = passes(log_n, code)
        bottom, top = all_passes[0][1], all_passes[-1][1]
        # from 2^12 elements on there are passes between the first and the last
        rows: dict[str, Any] = {"ROWS": True, "B_ROWS": False}
        yield _launch(ntt_passes.product_kernel, lanes, RL=top, UNIT=False, **rows, T=code)
        yield _launch(ntt_passes.combine_kernel, lanes, RL=bottom, FINISHED=False, T=code)
        yield _launch(ntt_passes.turn_kernel, lanes, RL=bottom, T=code)
        yield from _passes(code, all_passes, lanes)
    elements = shape_for("elementwise", FR.n_limbs, arch)
    for coset in (False, True):
        yield _launch(ntt_split.split_kernel, elements, COSET=coset, T=code)
    yield _launch(ntt_split.join_kernel, elements, T=code)
    yield _launch(twiddles.powers_kernel, elements, T=code)
    yield _launch(twiddles.scale_by_powers_kernel, elements, F=code.F)
    square = shape_for("bit reversal", FR.n_limbs, arch)
    edge = min((square.block.bit_length() - 1) // 2, _LOG_SIZES[0] // 2)
    turned = Shape(1 << 2 * edge, square.num_warps, square.measured)
    yield _launch(ntt_passes.reverse_kernel, turned, EDGE=edge)


def _passes(code: NttCode, all_passes: list[tuple[int, int]], lanes: Shape) -> Iterator[Launch]:
    """Those of `ntt.forth` and `ntt.back`, alone and as the quotient has them."""
    n_passes = len(all_passes)
    for i, (log_m, stages) in enumerate(all_passes):
        first, last = i == 0, i == n_passes - 1
        below, above = in_rows(i, n_passes), in_rows(i + 1, n_passes)
        # between the first two passes and the last one there are short distances and far ones
        shorts = [False] if last else [True] if i < 2 else [True, False]
        pass_: dict[str, Any] = {"RL": stages, "UNIT": log_m == 0, "T": code}
        # forward, inverse, and from the coset before what another kernel does
        ways = [(False, False), (True, False)] + [(True, True)] * (not first)
        for (inverse_, coset), short in product(ways, shorts):
            made = {**pass_, "INVERSE": inverse_, "COSET": coset, "SHORT": short}
            made |= {"IN_ROWS": above, "OUT_ROWS": below}
            yield _launch(ntt_passes.forth_kernel, lanes, **made)
        # inverse, and to the coset after what another kernel does
        ways = [(True, False)] + [(False, True)] * (not first)
        for (inverse_, coset), short in product(ways, shorts):
            made = {**pass_, "INVERSE": inverse_, "COSET": coset, "SHORT": short}
            made |= {"SCALED": first and inverse_, "LAST": last}
            made |= {"IN_ROWS": below, "OUT_ROWS": above}
            yield _launch(ntt_passes.back_kernel, lanes, **made)


def _labels(arch: int) -> Iterator[Launch]:
    labels, words = (shape_for("labels", FP.n_limbs, arch), shape_for("digits", FR.n_limbs, arch))
    yield _launch(msm_buckets.pair_keys, labels, {"index": torch.int64})
    yield _launch(msm_buckets.pair_labels, labels)
    for kernel in (msm_digits.find_carries, msm_digits.make_keys):
        yield _launch(kernel, words, {"carries": torch.int8})


def _values(variant: Variant, arch: int) -> Iterator[Launch]:
    code, shape = field_code(FR, 1, variant), shape_for("values", FR.n_limbs, arch)
    yield _launch(values.classes_kernel, shape, {"out_ptr": torch.uint8}, F=code)
    for indexed in (False, True):
        yield _launch(values.from_mont_at_kernel, shape, INDEXED=indexed, F=code)
    yield _launch(values.first_unsatisfied_kernel, shape, {"first_ptr": torch.int64}, F=code)


def _elements(variant: Variant, arch: int) -> Iterator[Launch]:
    for field, degree in ((FP, 2), (FP, 1), (FR, 1)):
        code = field_code(field, degree, variant)
        shape = shape_for("elementwise", field.n_limbs, arch)
        for op in ("mul", "add", "sub"):
            yield _launch(elementwise.binary_kernel, shape, OP=op, F=code)
        # `variants` asks for no other
        yield _launch(rate.chain_kernel, shape, OP="mul", UNROLLED=1, F=code)
        for op in ("sqr", "neg"):
            yield _launch(elementwise.unary_kernel, shape, OP=op, F=code)
        if degree == 2:
            yield _launch(fp2.norm_kernel, shape, F=code)
            yield _launch(fp2.conjugate_kernel, shape, F=code)
            continue
        yield _launch(elementwise.scale_kernel, shape, F=code)
        alone, many = (shape_for(k, field.n_limbs, arch) for k in ("fermat", "inverse"))
        yield _launch(inverse.fermat_kernel, alone, F=code)
        yield _launch(inverse.inverses_kernel, many, F=code)
        yield _launch(inverse.products_kernel, many, F=code)
