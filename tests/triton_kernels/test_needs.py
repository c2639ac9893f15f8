"""What the kernels' sums are said to take, against what their launchers allocate.

Nothing is launched: digits are random numbers, which is what those of random scalars are, and no
point is ever computed. So sizes are as on a GPU, where the shares of lanes show.
"""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from memory_tracker import watch_memory
from torchzk.params.curves import G1, G2, Curve
from torchzk.params.domains import Domain
from torchzk.params.fields import FR
from torchzk.triton_kernels import batch_add as batch_add_module
from torchzk.triton_kernels import msm_buckets, msm_digits, msm_reduce, needs, pair_sums

# the package's functions have the names of their modules
MSM = __import__("torchzk.triton_kernels.msm", fromlist=["msm"])
BATCH_ADD = __import__("torchzk.triton_kernels.batch_add", fromlist=["batch_add"])
FIXED_BASE = __import__("torchzk.triton_kernels.fixed_base", fromlist=["fixed_base"])
assert callable(batch_add_module)
N = 1 << 19


@pytest.fixture(autouse=True)
def nothing_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """No kernel is launched, and random keys come in place of digits."""
    torch.manual_seed(6)

    def keys(self: msm_digits.Digits, first: int, last: int) -> torch.Tensor:
        n, sizes = self.scalars.shape[1], self.windows.sizes
        rows = torch.arange(last - first).unsqueeze(1) * 2 * sizes
        return (torch.randint(0, 2 * sizes, (last - first, n)) + rows).to(torch.int32)

    for module in (msm_buckets, msm_digits, msm_reduce, pair_sums):
        monkeypatch.setattr(module, "launch", lambda *_, **__: None)
    for module in (msm_reduce, pair_sums):
        monkeypatch.setattr(
            module,
            "field_code_on",
            lambda device, field, degree=1: SimpleNamespace(W=degree * field.n_limbs),
        )
    monkeypatch.setattr(msm_digits.Digits, "keys", keys)
    monkeypatch.setattr(MSM, "fold", lambda points, curve: None)
    monkeypatch.setattr(BATCH_ADD, "rows_to_points", lambda rows, curve: [None])
    # what no kernel has written is read as an index
    monkeypatch.setattr(torch, "empty", torch.zeros)


def scalars(n: int) -> torch.Tensor:
    words = torch.randint(-(1 << 31), 1 << 31, (8, n), dtype=torch.int64).to(torch.int32)
    words[7] = torch.randint(0, FR.modulus >> 224, (n,), dtype=torch.int32)
    return words


@pytest.mark.parametrize("curve", [G1, G2], ids=["G1", "G2"])
@pytest.mark.parametrize("windows", [1, 3])
def test_a_multiplication_takes_what_it_is_said_to(curve: Curve, windows: int) -> None:
    limit = windows * needs.msm_window_bytes(N, curve)
    given = scalars(N), torch.zeros(N, *curve.row_shape, dtype=torch.int32)
    with watch_memory() as watched:
        MSM.msm(*given, curve, limit_bytes=limit)
    said = needs.msm_bytes(N, curve, limit)
    assert said <= limit
    assert 1.0 <= said / watched.peak <= 1.01
    # the least limit that changes nothing
    least = needs.msm_limit(N, curve, limit)
    assert least <= limit and needs.msm_bytes(N, curve, least) == said


def test_points_are_cut_where_one_window_does_not_fit() -> None:
    limit = needs.msm_window_bytes(N, G1) // 3
    given = scalars(N), torch.zeros(N, *G1.row_shape, dtype=torch.int32)
    with watch_memory() as watched:
        MSM.msm(*given, G1, limit_bytes=limit)
    assert 1.0 <= needs.msm_bytes(N, G1, limit) / watched.peak <= 1.1
    assert watched.peak <= limit


@pytest.mark.parametrize("n", [N, 4 * N])
@pytest.mark.parametrize("curve", [G1, G2], ids=["G1", "G2"])
def test_a_sum_of_points_takes_what_it_is_said_to(curve: Curve, n: int) -> None:
    points = torch.zeros(n, *curve.row_shape, dtype=torch.int32)
    chosen = torch.ones(n, dtype=torch.bool)
    with watch_memory() as watched:
        BATCH_ADD.batch_add(points, chosen, curve)
    assert 1.0 <= needs.batch_add_bytes(n, curve) / watched.peak <= 1.1


# an odd number of windows, an even one, and several pieces
@pytest.mark.parametrize("n", [100, 5000, 3 << 17])
@pytest.mark.parametrize("curve", [G1, G2], ids=["G1", "G2"])
def test_multiples_of_a_point_take_what_they_are_said_to(
    curve: Curve, n: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (FIXED_BASE, needs):
        monkeypatch.setattr(module, "_PIECE", 1 << 18)
    given = scalars(n)
    with watch_memory() as watched:
        FIXED_BASE.fixed_base(given, curve.generator, curve)
    assert 1.0 <= needs.fixed_base_bytes(n, curve) / watched.peak <= 1.01


def test_figures_grow_with_sizes() -> None:
    for curve in (G1, G2):
        for n in (1000, 1 << 17, 1 << 22):
            assert needs.fixed_base_bytes(2 * n, curve) > needs.fixed_base_bytes(n, curve) > 0
            assert needs.batch_add_bytes(2 * n, curve) > needs.batch_add_bytes(n, curve) > 0
    for log_n in range(24):
        domain, larger = Domain(log_n), Domain(log_n + 1)
        assert needs.quotient_in_turn_bytes(larger) > needs.quotient_in_turn_bytes(domain)
        all_at_once = needs.tables_bytes(domain, in_turn=False)
        # of one element there is nothing to split
        assert all_at_once > needs.tables_bytes(domain, in_turn=True) or log_n == 0
        # beside three vectors, and beside none
        vectors = 3 * 32 * domain.size
        both = needs.quotient_bytes(domain) + vectors, needs.quotient_in_turn_bytes(domain)
        assert both[0] > both[1]
