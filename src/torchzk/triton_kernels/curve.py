"""Affine curve operations over point rows, as Triton kernels."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from torchzk.ops.layout import check_rows, check_summands, pack_mont
from torchzk.params.curves import Curve
from torchzk.params.fields import FP
from torchzk.triton_kernels import limbs, points
from torchzk.triton_kernels.launch import aligned, launch, on_device, shape_on
from torchzk.triton_kernels.pair_sums import Pairs, add_pairs
from torchzk.triton_kernels.variants import field_code_on


def add_affine(p: torch.Tensor, q: torch.Tensor, curve: Curve) -> torch.Tensor:
    """p + q, point by point, complete; see `torchzk.ops.add_affine`."""
    check_rows(p, curve)
    check_rows(q, curve)
    check_summands(p, q)
    with on_device(p.device):
        return add_pairs(Pairs(aligned(p), aligned(q), len(p)), curve)


@triton.jit(do_not_specialize=["n"])
def negate(out, rows, n, F: tl.constexpr, BLOCK: tl.constexpr):
    """The opposite of each point; lanes past the end repeat the first."""
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    offset = tl.where(i < n, i, 0) * (8 * F.W)
    at = points.address(rows, offset)
    to = points.address(out, offset)
    points.store(to, points.load(at, F), F)
    points.store(to + 4 * F.W, limbs.neg(points.load(at + 4 * F.W, F), F), F)


def neg_affine(rows: torch.Tensor, curve: Curve) -> torch.Tensor:
    """-p, point by point; see `torchzk.ops.neg_affine`."""
    check_rows(rows, curve)
    rows, n = aligned(rows), len(rows)
    out = torch.empty_like(rows)
    if n:
        code = field_code_on(rows.device, curve.field, curve.degree)
        shape = shape_on(rows.device, "points", FP.n_limbs)
        launch(negate, n, shape, rows.device, out, rows, n, F=code)
    return out


@triton.jit(do_not_specialize=["n"])
def satisfies(out, rows, b, n, F: tl.constexpr, BLOCK: tl.constexpr):
    """Whether each point is infinite or has y^2 = x^3 + b."""
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    at = points.address(rows, tl.where(i < n, i, 0) * (8 * F.W))
    x = points.load(at, F)
    y = points.load(at + 4 * F.W, F)
    cube = limbs.mul(limbs.sqr(x, F), x, F)
    right = limbs.add(cube, points.load(points.address(b, i * 0), F), F)
    good = points.is_equal(limbs.sqr(y, F), right, F) | points.is_infinite(x, y, F)
    tl.store(out + i, good, mask=i < n)


def on_curve(points: torch.Tensor, curve: Curve) -> torch.Tensor:
    """Which points satisfy the curve's equation, bool `[n]`; see `torchzk.ops.on_curve`."""
    check_rows(points, curve)
    rows, n = aligned(points), len(points)
    out = torch.empty(n, dtype=torch.bool, device=rows.device)
    if n:
        code = field_code_on(rows.device, curve.field, curve.degree)
        b = pack_mont(curve.b, curve.field, rows.device).t().contiguous()
        shape = shape_on(rows.device, "points", FP.n_limbs)
        launch(satisfies, n, shape, rows.device, out, rows, b, n, F=code)
    return out
