"""The curve's kernels as they are launched, for the compiler alone.

`PTX` is what runs on a GPU; `PLAIN` are those whose plain code the compiler gets through. Of a
function that adds points that is quadratic in the length of the code: `add_alone` takes 40 s in
G1 for one architecture, and in G2, with about three times the code, many minutes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torchzk.params.fields import FP
from torchzk.triton_kernels import curve, msm_buckets, msm_digits, msm_reduce, pair_sums
from torchzk.triton_kernels.code import field_code
from torchzk.triton_kernels.tuning import Shape, shape_for

_SUMS = shape_for("pairs", 12, 90)
_REDUCE = shape_for("sums", 12, 90)
_POINTS = shape_for("points", 12, 90)
_KEYS = shape_for("labels", 12, 90)
_DIGITS = shape_for("digits", 8, 90)

# pairs named by index, and neighbours; two tensors of pairs (stride 1) are the latter's code
_PAIRS = {"named": 0, "neighbours": 2}

# kernels over a field, with their launch shapes: those that know pairs, and the others
OF_PAIRS: tuple[tuple[Any, Shape], ...] = (
    (pair_sums.multiply_runs, _SUMS),
    (pair_sums.finish_sums, _SUMS),
    (pair_sums.add_alone, _SUMS),
    (pair_sums.add_flagged, _SUMS),
)
OF_ELEMENTS: tuple[tuple[Any, Shape], ...] = (
    (pair_sums.multiply_elements, _SUMS),
    (pair_sums.split_inverses, _SUMS),
    (pair_sums.invert_each, _SUMS),
    (curve.negate, _POINTS),
    (curve.satisfies, _POINTS),
    (pair_sums.copy_points, _POINTS),
    (msm_reduce.weigh_bits, _REDUCE),
    (msm_reduce.make_affine, _REDUCE),
)
OF_KEYS: tuple[tuple[Any, Shape], ...] = (
    (msm_digits.find_carries, _DIGITS),
    (msm_digits.make_keys, _DIGITS),
    (msm_buckets.pair_keys, _KEYS),
    (msm_buckets.pair_labels, _KEYS),
)
# in G1 alone; what takes more than a few seconds waits for --full
PLAIN = (pair_sums.multiply_elements, pair_sums.split_inverses, curve.negate, curve.satisfies)
PLAIN_SLOW = (pair_sums.multiply_runs, pair_sums.finish_sums, pair_sums.invert_each)

# arguments that point, by name
POINTERS = {
    **dict.fromkeys(["out", "prefix", "product", "inverse", "left", "right", "source"], "*i32"),
    **dict.fromkeys(["a", "rows", "b", "keys", "offset", "scalars", "labels"], "*i32"),
    **dict.fromkeys(["new_labels", "start", "pairs", "singles", "alone", "names"], "*i32"),
    **dict.fromkeys(["pairs_before", "singles_before"], "*i32"),
    **dict.fromkeys(["flags", "carries"], "*i8"),
    "index": "*i64",
}
_OTHER_POINTERS = {
    curve.satisfies: {"out": "*i1"},
    msm_reduce.weigh_bits: {"first": "*i32"},
}


def pointers(kernel: Any) -> dict[str, str]:
    """The types of a kernel's arguments that point."""
    known = {**POINTERS, **_OTHER_POINTERS.get(kernel, {})}
    return {name: known[name] for name in kernel.arg_names if name in known}


def kernels() -> Iterator[tuple[str, Any, Shape, dict[str, Any], str]]:
    """Name, kernel, launch shape, constants, and why it is too slow for every run, if it is."""
    for degree in (1, 2):
        code = field_code(FP, degree, "ptx")
        for kernel, shape in OF_PAIRS:
            for pairs, stride in _PAIRS.items():
                name = f"ptx g{degree} {kernel.__name__} {pairs}"
                yield name, kernel, shape, {"F": code, "STRIDE": stride}, ""
        for kernel, shape in OF_ELEMENTS:
            yield f"ptx g{degree} {kernel.__name__}", kernel, shape, {"F": code}, ""
        for points, affine in (("affine", True), ("xyzz", False)):
            name = f"ptx g{degree} add_runs {points}"
            yield name, msm_reduce.add_runs, _REDUCE, {"F": code, "AFFINE": affine}, ""
    plain = field_code(FP, 1, "plain")
    for kernel, shape in (*OF_PAIRS, *OF_ELEMENTS):
        if kernel not in PLAIN + PLAIN_SLOW:
            continue
        stride = {"STRIDE": 0} if "STRIDE" in kernel.arg_names else {}
        reason = "plain code, up to 20 s an architecture" if kernel in PLAIN_SLOW else ""
        yield f"plain g1 {kernel.__name__}", kernel, shape, {"F": plain, **stride}, reason
    for kernel, shape in OF_KEYS:
        yield kernel.__name__, kernel, shape, {}, ""
