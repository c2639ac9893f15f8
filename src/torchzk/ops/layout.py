"""Limb tensors: int32 words that hold uint32 bits, least significant first.

The legend of shapes, for the whole project: `L` limbs (Fr 8, Fp 12), `n` elements or points,
`m` constraints, `v` variables, `k` batch, `w` windows, `c` window bits, `d` degree of a
coordinate (1 in G1, 2 in G2).

Planes `[L, *batch]` hold what is streamed: scalars, polynomials, assignments; Fp2 has a plane of
its own in front, `[2, L, *batch]`. Rows hold what is gathered: affine points, G1 `[n, 2, L]`,
G2 `[n, 2, 2, L]`. Everything is in Montgomery form with R = 2^(32 L) and in [0, p), except
where a name says otherwise. Affine infinity is (0, 0), which lies on neither curve.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from torchzk.errors import LayoutError
from torchzk.params.curves import Curve, Point
from torchzk.params.fields import PrimeField

ZERO, ONE, OTHER = 0, 1, 2
"""Classes of values, uint8 `[n]`: 0, 1, and everything else."""


def check_limbs(x: torch.Tensor, field: PrimeField) -> None:
    """Raise `LayoutError` unless `x` is an int32 `[field.n_limbs, *batch]`."""
    if x.dtype != torch.int32:
        raise LayoutError(f"limbs are int32, got {x.dtype}")
    if x.ndim < 2 or x.shape[0] != field.n_limbs:
        raise LayoutError(f"{field.name} needs [{field.n_limbs}, *batch], got {list(x.shape)}")


def check_pair(a: torch.Tensor, b: torch.Tensor, field: PrimeField) -> None:
    """Raise `LayoutError` unless `a` and `b` are limb tensors of one shape."""
    check_limbs(a, field)
    check_limbs(b, field)
    if a.shape != b.shape or a.device != b.device:
        raise LayoutError(f"operands differ: {_of(a)} and {_of(b)}")


def check_rows(points: torch.Tensor, curve: Curve) -> None:
    """Raise `LayoutError` unless `points` is an int32 `[n, *curve.row_shape]`."""
    if points.dtype != torch.int32 or points.shape[1:] != curve.row_shape:
        raise LayoutError(
            f"{curve.name} points are int32 [n, {curve.row_shape}], got {_of(points)}"
        )


def check_summands(p: torch.Tensor, q: torch.Tensor) -> None:
    """Raise `LayoutError` unless points can be added one by one."""
    if p.shape != q.shape or p.device != q.device:
        raise LayoutError(f"points are added one by one, got {_of(p)} and {_of(q)}")


def check_msm(scalars: torch.Tensor, points: torch.Tensor, curve: Curve) -> int:
    """Raise `LayoutError` unless `scalars` are limbs `[L, n]` for `n` points; return n."""
    check_limbs(scalars, curve.scalars)
    check_rows(points, curve)
    if scalars.ndim != 2 or scalars.shape[1] != points.shape[0]:
        raise LayoutError(f"scalars {list(scalars.shape)} do not match {points.shape[0]} points")
    if scalars.device != points.device:
        raise LayoutError(f"scalars on {scalars.device}, points on {points.device}")
    return points.shape[0]


def check_chosen(chosen: torch.Tensor, points: torch.Tensor) -> None:
    """Raise `LayoutError` unless `chosen` is bool `[n]` or int64 `[m]`, indices of `n` points."""
    n = points.shape[0]
    if chosen.device != points.device:
        raise LayoutError(f"{_of(chosen)} chooses among points on {points.device}")
    if chosen.dtype == torch.bool and chosen.shape == (n,):
        return
    if chosen.dtype != torch.int64 or chosen.ndim != 1:
        raise LayoutError(f"{_of(chosen)} chooses none of {n} points: bool [{n}] or int64 [m] does")
    if len(chosen) and not 0 <= int(chosen.min()) <= int(chosen.max()) < n:
        raise LayoutError(f"an index is outside the {n} points")


def _of(x: torch.Tensor) -> str:
    return f"{x.dtype} {list(x.shape)} on {x.device}"


def pack(values: Sequence[int], field: PrimeField, device: torch.device | str) -> torch.Tensor:
    """Integers in [0, p) to a limb tensor `[L, len(values)]`, as given (no Montgomery factor)."""
    n_bytes = field.n_bytes
    raw = b"".join(v.to_bytes(n_bytes, "little") for v in values)
    words = torch.frombuffer(bytearray(raw or b"\0\0\0\0"), dtype=torch.int32)
    words = words[: len(values) * field.n_limbs].view(len(values), field.n_limbs)
    return words.t().contiguous().to(device)


def unpack(x: torch.Tensor) -> list[int]:
    """Inverse of `pack` for a limb tensor `[L, n]`."""
    raw = x.t().contiguous().cpu().numpy().astype("<i4").tobytes()
    step = 4 * x.shape[0]
    return [int.from_bytes(raw[i : i + step], "little") for i in range(0, len(raw), step)]


def pack_mont(values: Sequence[int], field: PrimeField, device: torch.device | str) -> torch.Tensor:
    """Canonical integers to a limb tensor `[L, len(values)]` in Montgomery form."""
    return pack([field.to_mont(v) for v in values], field, device)


def unpack_mont(x: torch.Tensor, field: PrimeField) -> list[int]:
    """Inverse of `pack_mont`."""
    return [field.from_mont(v) for v in unpack(x)]


def points_to_rows(
    points: Sequence[Point], curve: Curve, device: torch.device | str
) -> torch.Tensor:
    """Canonical integer points to rows `[n, *curve.row_shape]` in Montgomery form."""
    zero = (0,) * curve.degree
    flat = [c for p in points for xy in (p or (zero, zero)) for c in xy]
    planes = pack_mont(flat, curve.field, device)
    return planes.t().reshape(len(points), *curve.row_shape).contiguous()


def rows_to_points(rows: torch.Tensor, curve: Curve) -> list[Point]:
    """Inverse of `points_to_rows`; the check that a point is on the curve is not made here."""
    check_rows(rows, curve)
    flat = unpack_mont(rows.reshape(-1, curve.field.n_limbs).t(), curve.field)
    d = curve.degree
    points: list[Point] = []
    for i in range(0, len(flat), 2 * d):
        x, y = tuple(flat[i : i + d]), tuple(flat[i + d : i + 2 * d])
        points.append((x, y) if any(x) or any(y) else None)
    return points


def rows_to_coordinates(rows: torch.Tensor, curve: Curve) -> tuple[torch.Tensor, torch.Tensor]:
    """Rows `[n, *row_shape]` to planes x, y, each `[d, L, n]`."""
    check_rows(rows, curve)
    xy = rows.reshape(rows.shape[0], 2, curve.degree, curve.field.n_limbs).permute(1, 2, 3, 0)
    return xy[0], xy[1]


def coordinates_to_rows(x: torch.Tensor, y: torch.Tensor, curve: Curve) -> torch.Tensor:
    """Inverse of `rows_to_coordinates`."""
    n = x.shape[-1]
    return torch.stack((x, y)).permute(3, 0, 1, 2).reshape(n, *curve.row_shape)
