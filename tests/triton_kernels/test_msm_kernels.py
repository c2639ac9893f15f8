"""MSM, bit sums, sums of chosen points and fixed-base multiples of the kernels.

In the interpreter, where an addition takes milliseconds, scalars are short; what does not depend
on how pairs are added is tested with the reference's additions at full length.
"""

from __future__ import annotations

import importlib
import itertools
import random

import pytest
import torch

from curve_samples import OUTSIDE_G1, R, multiples, scalars, weighted
from torchzk import ops
from torchzk.errors import LayoutError
from torchzk.ops.layout import pack, points_to_rows, rows_to_points
from torchzk.params import integers
from torchzk.params.curves import CURVES, G1, Curve, Point
from torchzk.params.fields import FR
from torchzk.triton_kernels import msm_buckets, msm_reduce
from torchzk.triton_kernels.batch_add import batch_add
from torchzk.triton_kernels.fixed_base import fixed_base
from torchzk.triton_kernels.msm_digits import (
    NO_KEY,
    Windows,
    digits,
    scalar_bound,
)
from torchzk.triton_kernels.pair_sums import MINUS, Pairs
from triton_kernels.lanes import INTERPRETED

# the package's names for the modules are those of their functions
kernels = importlib.import_module("torchzk.triton_kernels.msm")
fixed_base_module = importlib.import_module("torchzk.triton_kernels.fixed_base")

pytestmark = pytest.mark.usefixtures("asm")
both = pytest.mark.parametrize("curve", CURVES.values(), ids=CURVES.keys())


def reference_pairs(pairs: Pairs, curve: Curve) -> torch.Tensor:
    """`add_pairs` for named pairs, with the operations of the reference."""
    assert pairs.source is not None and pairs.source.is_contiguous()

    def rows(names: torch.Tensor) -> torch.Tensor:
        some = pairs.left[(names.clamp(min=0) & (MINUS - 1)).long()]
        shape = (-1, *[1] * (some.ndim - 1))
        minus = ((names > 0) & (names & MINUS != 0)).view(shape)
        signed = torch.where(minus, ops.neg_affine(some, curve), some)
        return torch.where((names < 0).view(shape), 0, signed)

    sums = ops.add_affine(rows(pairs.source[:, 0]), rows(pairs.source[:, 1]), curve)
    return sums if pairs.alone is None else torch.cat((sums, rows(pairs.alone)))


def reference_sums_by_bit(arrays: torch.Tensor, curve: Curve) -> torch.Tensor:
    """`sums_by_bit` in affine rows."""
    width = arrays.shape[1].bit_length() - 1
    sums: list[Point] = []
    for array in arrays:
        found = array.flatten(1).any(1).nonzero().squeeze(1)
        points = rows_to_points(array[found], curve)
        for bit in range(width):
            factors = [i >> bit & 1 for i in found.tolist()]
            sums.append(weighted(curve, factors, points))
    rows = points_to_rows(sums, curve, arrays.device)
    return rows.view(len(arrays), width, *curve.row_shape)


def reference_weigh(bits: torch.Tensor, tops: torch.Tensor, curve: Curve) -> torch.Tensor:
    """`weigh` of sums by bit in affine rows."""
    pieces, w, width = bits.shape[:3]
    sums: list[Point] = []
    for window in range(w):
        parts = torch.cat((bits[:, window].flatten(0, 1), tops[:, window]))
        factors = [1 << bit for _ in range(pieces) for bit in range(width)]
        factors += [1 << width] * pieces
        sums.append(weighted(curve, factors, rows_to_points(parts, curve)))
    return points_to_rows(sums, curve, bits.device)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Additions of the reference, where kernels are interpreted."""
    if INTERPRETED:
        monkeypatch.setattr(msm_buckets, "add_pairs", reference_pairs)
        monkeypatch.setattr(fixed_base_module, "add_pairs", reference_pairs)
        monkeypatch.setattr(msm_reduce, "sums_by_bit", reference_sums_by_bit)
        monkeypatch.setattr(msm_reduce, "weigh", reference_weigh)
        monkeypatch.setattr(msm_reduce, "affine", lambda rows, curve: rows)


@both
def test_a_short_sum(device: torch.device, curve: Curve) -> None:
    """All kernels together: infinite, repeated and opposite points, digits of either sign."""
    known = [p for _, p in multiples(curve, 11, seed=1)] + [None, curve.generator]
    factors = [0, 1, 2, 3, 15, 16, 17, 31, 30, 29, 7, 9, 5]
    rows = points_to_rows(known, curve, device)
    x, want = pack(factors, FR, device), weighted(curve, factors, known)
    assert want is not None
    assert kernels.msm(x, rows, curve) == want
    # quick enough on a GPU only
    assert INTERPRETED or kernels.msm(x, rows, curve) == want


@both
@pytest.mark.parametrize("n", [0, 1, 2, 3, 8, 90])
@pytest.mark.usefixtures("quick")
def test_sums(device: torch.device, curve: Curve, n: int) -> None:
    """Edge scalars and edge points."""
    known = [p for _, p in multiples(curve, n, seed=n)]
    factors = scalars(n, seed=n)
    rows, x = points_to_rows(known, curve, device), pack(factors, FR, device)
    assert kernels.msm(x, rows, curve) == weighted(curve, factors, known)


@both
@pytest.mark.parametrize("scalar", [0, 1, R - 1, 0xFEDCBA987654321 << 150])
@pytest.mark.usefixtures("quick")
def test_all_scalars_equal(device: torch.device, curve: Curve, scalar: int) -> None:
    known = multiples(curve, 33, seed=5)
    rows = points_to_rows([p for _, p in known], curve, device)
    got = kernels.msm(pack([scalar] * 33, FR, device), rows, curve)
    log = scalar * sum(k for k, _ in known)
    assert got == integers.mul(curve, log % R, curve.generator)


@both
@pytest.mark.usefixtures("quick")
def test_everything_cancels(device: torch.device, curve: Curve) -> None:
    g, s = curve.generator, scalars(20, seed=6)[-1]
    rows = points_to_rows([g, integers.neg(curve, g), g, g], curve, device)
    assert kernels.msm(pack([s, s, s, R - s], FR, device), rows, curve) is None


@pytest.mark.usefixtures("quick")
def test_points_outside_the_subgroup(device: torch.device) -> None:
    """Scalars act as integers, not modulo r."""
    rows = points_to_rows([OUTSIDE_G1], G1, device)
    for s in (1, 2, 3, 4, R - 1, R // 3):
        assert kernels.msm(pack([s], FR, device), rows, G1) == integers.mul(G1, s, OUTSIDE_G1)


@both
@pytest.mark.parametrize("bits", [2, 5, 9, 16])
@pytest.mark.usefixtures("quick")
def test_any_window_and_limit(
    device: torch.device, monkeypatch: pytest.MonkeyPatch, curve: Curve, bits: int
) -> None:
    """The result depends neither on the windows nor on the pieces."""
    wide = (bits + 1) // 2 if bits > 2 else 0
    monkeypatch.setattr(kernels, "_windows", lambda n, bound, device: Windows(bits, bound, wide))
    monkeypatch.setattr(kernels, "_MAX_POINTS", 25)
    known = [p for _, p in multiples(curve, 40, seed=11)]
    # 32 windows or more
    factors = [s % (1 << 32 * bits) for s in scalars(40, seed=12)]
    rows, x = points_to_rows(known, curve, device), pack(factors, FR, device)
    want = weighted(curve, factors, known)
    for limit in (1, 1 << 30):
        assert kernels.msm(x, rows, curve, limit_bytes=limit) == want


@both
@pytest.mark.parametrize("n_bits", [1, 12, 13, 64, 255])
@pytest.mark.usefixtures("quick")
def test_bit_sums(device: torch.device, curve: Curve, n_bits: int) -> None:
    rng = random.Random(n_bits)
    known = [p for _, p in multiples(curve, 50, seed=13)]
    top = min(1 << n_bits, R)
    factors = [0, top - 1, 1] + [rng.randrange(top) for _ in range(47)]
    rows, x = points_to_rows(known, curve, device), pack(factors, FR, device)
    assert kernels.bit_sums(x, rows, curve, n_bits) == ops.bit_sums(x, rows, curve, n_bits)


@pytest.mark.usefixtures("quick")
def test_bit_sums_in_pieces(device: torch.device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "_MAX_ENTRIES", 41)
    rows = points_to_rows([p for _, p in multiples(G1, 50, seed=14)], G1, device)
    x = pack([random.Random(i).randrange(1 << 13) for i in range(50)], FR, device)
    assert kernels.bit_sums(x, rows, G1, 13) == ops.bit_sums(x, rows, G1, 13)


def test_bit_sums_of_nothing_and_of_too_much(device: torch.device) -> None:
    empty = points_to_rows([], G1, device)
    assert kernels.bit_sums(pack([], FR, device), empty, G1, 5) == [None] * 5
    rows = points_to_rows([G1.generator], G1, device)
    assert kernels.bit_sums(pack([0], FR, device), rows, G1, 0) == []
    with pytest.raises(LayoutError, match="below 2\\^3"):
        kernels.bit_sums(pack([8], FR, device), rows, G1, 3)


@both
@pytest.mark.parametrize("n", [0, 1, 2, 5])
@pytest.mark.usefixtures("quick_inverse")
def test_batch_addition(device: torch.device, curve: Curve, n: int) -> None:
    known = [p for _, p in multiples(curve, n, seed=n + 3)]
    rows = points_to_rows(known, curve, device)
    assert batch_add(rows, None, curve) == weighted(curve, [1] * n, known)
    bits = torch.tensor([i % 3 != 1 for i in range(n)], dtype=torch.bool, device=device)
    # one index comes again, and its point meets itself
    again = torch.tensor([0, *range(0, n, 2)] if n else [], dtype=torch.int64, device=device)
    for chosen in (bits, again):
        want = ops.batch_add(rows, chosen, curve)
        assert batch_add(rows, chosen, curve) == want


def test_batch_addition_of_what_is_not_there(device: torch.device) -> None:
    rows = points_to_rows([G1.generator] * 3, G1, device)
    for bad in ([0, 3], [-1]):
        with pytest.raises(LayoutError, match="outside"):
            batch_add(rows, torch.tensor(bad, device=device), G1)
    with pytest.raises(LayoutError, match="chooses none"):
        batch_add(rows, torch.ones(2, dtype=torch.bool, device=device), G1)


@both
@pytest.mark.parametrize("n_bits", [1, 6, 13, 255])
@pytest.mark.usefixtures("quick")
def test_fixed_base(device: torch.device, curve: Curve, n_bits: int) -> None:
    """From one window to many; 20 scalars of 6 bits have two."""
    rng, top = random.Random(n_bits), min(1 << n_bits, R)
    for n in (0, 1, 20):
        x = pack([rng.randrange(top) for _ in range(n)], FR, device)
        for base in (curve.generator, None):
            got = fixed_base(x, base, curve)
            assert torch.equal(got, ops.fixed_base(x, base, curve))


@pytest.mark.parametrize("bits", [2, 5, 8, 12, 13, 16, 22])
def test_keys(device: torch.device, bits: int) -> None:
    """Any limbs, canonical or not, are the sum of their digits."""
    values = [*scalars(40, seed=bits), (1 << 256) - 1, 1 << 255]
    x = pack(values, FR, device)
    for wide in (0, 1, 3):
        windows = Windows(bits, scalar_bound(x), wide)
        assert windows.bound == 1 << 256
        read = digits(x, windows)
        got = [0] * len(values)
        # windows of both widths together, and each by itself
        cuts = ([0, windows.count], list(range(windows.count + 1)))[wide % 2]
        for first, last in itertools.pairwise(cuts):
            for w, row in enumerate(read.keys(first, last).tolist(), first):
                sizes = windows.labels(w, w + 1)
                for i, key in enumerate(row):
                    if key != NO_KEY:
                        size = (key >> 1) - windows.labels(first, w)
                        assert 0 <= size < sizes
                        size = size or sizes
                        got[i] += (-size if key & 1 else size) << windows.start(w)
        assert got == values


@pytest.mark.parametrize("log_n", [5, 12, 20, 24, 27])
def test_windows_are_full(log_n: int) -> None:
    """Of two widths, one bit apart, and so many that the last digit takes all of its window."""
    for n_bits in range(1, 257):
        for most in (1 << n_bits - 1, (1 << n_bits) - 1):
            windows = kernels._windows(1 << log_n, most + 1, torch.device("cpu"))
            count, last = windows.count, windows.bits + (windows.wide > 0)
            assert windows.bits > 1 and last < 25 and windows.wide < count
            over = windows.start(count - 1) + last - max(2, n_bits + 1)
            # a power of two fits in a bit less; windows have two bits at least
            less, more = most == 1 << n_bits - 1, windows.bits == 2
            assert -int(less) <= over <= int(more)
            assert windows.last <= 1 << last - 1
            starts = [windows.start(w) for w in range(count)]
            widths = [b - a for a, b in itertools.pairwise(starts)] + [last]
            assert widths == [windows.bits + (w >= windows.narrow) for w in range(count)]
            assert windows.labels(0, count) == sum(1 << width - 1 for width in widths)
            assert [w for span in windows.spans for w in span] == list(range(count))


@pytest.mark.parametrize("values", [[0], [1], [0, 5], [1 << 31], [3 << 40, 1], [(1 << 255) - 1]])
def test_scalar_bound(device: torch.device, values: list[int]) -> None:
    bound = scalar_bound(pack(values, FR, device))
    assert max(values) < bound
    # the highest word is known, unless it is above 2^31
    assert bound <= max(1, 2 * max(values)) or max(values) >> 31 & 1


def test_wrong_operands_are_refused(device: torch.device) -> None:
    rows = points_to_rows([G1.generator] * 4, G1, device)
    good = pack([1, 2, 3, 8], FR, device)
    for x in (good[:, :3], good[:7], good.long(), good.view(8, 2, 2)):
        with pytest.raises(LayoutError):
            kernels.msm(x, rows, G1)
