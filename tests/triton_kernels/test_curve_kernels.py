"""Affine kernels against integers: interpreted, or compiled on a GPU."""

from __future__ import annotations

import random

import pytest
import torch

from curve_samples import some_points
from torchzk import ops
from torchzk.errors import LayoutError
from torchzk.ops.layout import pack, points_to_rows, rows_to_points, unpack
from torchzk.params import integers
from torchzk.params.curves import CURVES, G1, G2, Curve, Point
from torchzk.params.fields import FP
from torchzk.triton_kernels import curve as kernels
from torchzk.triton_kernels import pair_sums
from torchzk.triton_kernels.code import field_code
from torchzk.triton_kernels.pair_sums import MINUS, add_pairs, named, neighbours
from triton_kernels.lanes import INTERPRETED
from triton_kernels.samples import tuned

pytestmark = pytest.mark.usefixtures("asm")
both = pytest.mark.parametrize("curve", CURVES.values(), ids=CURVES.keys())
ALONE, TOGETHER = 1 << 14, 4
MOST_PAIRS = 64


# four pairs at the most are alone in their lanes however many there may be
@both
@pytest.mark.parametrize(
    ("n", "max_lanes"), [(n, ALONE) for n in (0, 1, 32, 33)] + [(n, TOGETHER) for n in (32, 33)]
)
@pytest.mark.usefixtures("quick_inverse")
def test_pairs(device: torch.device, curve: Curve, n: int, max_lanes: int) -> None:
    """With an inversion for each pair, or one for the pairs of a lane and then for the lanes."""
    p, q = some_points(curve, n, seed=n), some_points(curve, n, seed=n + 1)
    a, b = points_to_rows(p, curve, device), points_to_rows(q, curve, device)
    expected = [integers.add(curve, x, y) for x, y in zip(p, q, strict=True)]
    with tuned({"lanes of pairs": max_lanes, "inverted alone": 8 * max_lanes}):
        got = kernels.add_affine(a, b, curve)
        # the interpreter has no races
        again = got if INTERPRETED else kernels.add_affine(a, b, curve)
    assert rows_to_points(got, curve) == expected
    assert torch.equal(again, got)


@both
@pytest.mark.parametrize(("n", "max_lanes"), [(1, ALONE), (2, ALONE), (19, ALONE), (19, TOGETHER)])
@pytest.mark.usefixtures("quick_inverse")
def test_neighbours(device: torch.device, curve: Curve, n: int, max_lanes: int) -> None:
    p = some_points(curve, n, seed=n)
    with tuned({"lanes of pairs": max_lanes}):
        got = add_pairs(neighbours(points_to_rows(p, curve, device)), curve)
    odd = [*p, None] if n % 2 else p
    assert rows_to_points(got, curve) == [
        integers.add(curve, a, b) for a, b in zip(odd[::2], odd[1::2], strict=True)
    ]


@both
@pytest.mark.parametrize("max_lanes", [ALONE, TOGETHER], ids=["alone", "together"])
@pytest.mark.usefixtures("quick_inverse")
def test_named_pairs(device: torch.device, curve: Curve, max_lanes: int) -> None:
    """With signs, singles, and singles of infinite points with a sign, among pairs or behind."""
    p, rng = some_points(curve, 12, seed=2) + [None], random.Random(3)
    names = [i | s for i in range(len(p)) for s in (0, MINUS)]
    source = [[a, rng.choice([-1, *names])] for a in names]
    source += [[a, -1] for a in names[-4:]]

    def point(name: int) -> Point:
        if name < 0:
            return None
        return integers.neg(curve, p[name - MINUS]) if name & MINUS else p[name]

    rows = points_to_rows(p, curve, device)
    pairs, alone = (torch.tensor(x, dtype=torch.int32, device=device) for x in (source, names))
    sums = [integers.add(curve, point(a), point(b)) for a, b in source]
    copied = [point(a) for a in names]
    with tuned({"lanes of pairs": max_lanes}):
        for some, expected in ((None, sums), (alone[:0], sums), (alone, sums + copied)):
            assert rows_to_points(add_pairs(named(rows, pairs, some), curve), curve) == expected
        got = add_pairs(named(rows, pairs[:0], alone), curve)
    assert rows_to_points(got, curve) == copied


@pytest.mark.usefixtures("quick_inverse")
def test_as_many_pairs_of_a_lane_as_there_may_be(device: torch.device) -> None:
    """One in two of them is special, and so flagged, at either end too."""
    p = some_points(G1, 2 * MOST_PAIRS + 2, seed=7, different=3)
    with tuned({"lanes of pairs": 1, "pairs of a lane": MOST_PAIRS}):
        assert pair_sums._lanes(MOST_PAIRS + 1, device)[0] == MOST_PAIRS
        got = add_pairs(neighbours(points_to_rows(p, G1, device)), G1)
    assert rows_to_points(got, G1) == [
        integers.add(G1, a, b) for a, b in zip(p[::2], p[1::2], strict=True)
    ]


def test_inverses_by_division_steps(device: torch.device) -> None:
    p, rng = FP.modulus, random.Random(4)
    values = [0, 1, 2, p - 1, p - 2, p // 2, FP.r, 1 << 380, (1 << 380) - 1]
    values += [rng.randrange(p) for _ in range(24)]
    a = pack([FP.to_mont(v) for v in values], FP, device).t().contiguous()
    got = pair_sums._invert(a, field_code(FP, 1, "ptx"))[: len(values)]
    inverses = [pow(v, -1, p) if v else 0 for v in values]
    assert [FP.from_mont(v) for v in unpack(got.t())] == inverses


@both
@pytest.mark.parametrize("n", [0, 1, 129])
def test_negation_and_membership(device: torch.device, curve: Curve, n: int) -> None:
    p = some_points(curve, n, seed=n)
    rows = points_to_rows(p, curve, device)
    got = kernels.neg_affine(rows, curve)
    assert rows_to_points(got, curve) == [integers.neg(curve, x) for x in p]
    wrong = rows.clone()
    wrong.flatten(1)[::3, 0] ^= 1
    for r in (rows, wrong):
        assert torch.equal(kernels.on_curve(r, curve), ops.on_curve(r, curve))
    assert kernels.on_curve(rows, curve).all()
    assert not kernels.on_curve(wrong, curve)[::3].any()


def test_rows_that_start_anywhere(device: torch.device) -> None:
    """Coordinates are read 16 bytes at a time; rows that start between are copied."""
    p = some_points(G1, 5, seed=6)
    rows = points_to_rows(p, G1, device)
    late = torch.empty(rows.numel() + 1, dtype=torch.int32, device=device)[1:].view(rows.shape)
    late.copy_(rows)
    assert late.data_ptr() % 16
    assert torch.equal(kernels.neg_affine(late, G1), ops.neg_affine(rows, G1))
    assert torch.equal(kernels.on_curve(late, G1), ops.on_curve(rows, G1))


def test_wrong_operands_are_refused(device: torch.device) -> None:
    g1 = points_to_rows([G1.generator] * 3, G1, device)
    g2 = points_to_rows([G2.generator] * 3, G2, device)
    for p, q in ((g1, g1[:2]), (g1, g2), (g2, g2), (g1.long(), g1)):
        with pytest.raises(LayoutError):
            kernels.add_affine(p, q, G1)
    with pytest.raises(LayoutError):
        kernels.on_curve(g2, G1)
    many = g1[:1].expand(MINUS + 1, *G1.row_shape)
    with pytest.raises(LayoutError, match="first 1073741824"):
        named(many, torch.zeros(1, 2, dtype=torch.int32, device=device))
