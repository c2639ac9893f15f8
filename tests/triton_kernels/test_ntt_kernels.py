"""Transforms against the reference: interpreted, or compiled on a GPU; there at full size too.

About 30 s interpreted.
"""

from __future__ import annotations

import importlib
import random

import pytest
import torch

from torchzk import triton_kernels as kernels
from torchzk.errors import LayoutError
from torchzk.ops.layout import pack, unpack
from torchzk.params.domains import Domain
from torchzk.params.fields import FR
from torchzk.triton_kernels import tuning, twiddles, variants
from torchzk.triton_kernels.launch import arch_of
from torchzk.triton_kernels.ntt_code import ntt_code_on
from torchzk.triton_kernels.tuning import Number, Shape
from torchzk.triton_kernels.variants import edges
from triton_kernels.lanes import INTERPRETED
from triton_kernels.samples import sample

# the package's name for the module is that of its function
reference = importlib.import_module("torchzk.ops.ntt")

pytestmark = pytest.mark.usefixtures("variant")
TRANSFORMS = ("ntt_dif", "intt_dit", "ntt", "intt")
# one pass, two and three, of every radix; the sizes of a GPU have more passes in rows
LOG_SIZES = [0, 1, 2, 3, 4, 7, 9] if INTERPRETED else [0, 1, 2, 3, 4, 7, 9, 10, 11, 12, 14, 16]


@pytest.mark.parametrize("log_n", LOG_SIZES)
@pytest.mark.parametrize("name", TRANSFORMS)
def test_matches_the_reference(device: torch.device, name: str, log_n: int) -> None:
    domain = Domain(log_n)
    x = pack(sample(FR, domain.size, log_n), FR, device)
    before = x.clone()
    expected = getattr(reference, name)(x, domain)
    for _ in range(1 if INTERPRETED else 2):
        assert torch.equal(getattr(kernels, name)(x, domain), expected)
    assert torch.equal(x, before)


@pytest.mark.parametrize("name", TRANSFORMS)
@pytest.mark.parametrize("batch", [(3,), (2, 2), (0,)])
def test_batches(device: torch.device, name: str, batch: tuple[int, ...]) -> None:
    domain, count = Domain(5), torch.Size(batch).numel()
    x = pack(sample(FR, count << 5, 7), FR, device).reshape(8, *batch, 32)
    got = getattr(kernels, name)(x, domain)
    assert got.shape == x.shape
    assert torch.equal(got, getattr(reference, name)(x, domain))


@pytest.mark.usefixtures("anew")
def test_groups_of_blocks(device: torch.device, monkeypatch: pytest.MonkeyPatch) -> None:
    """A whole group, and blocks that are left over."""
    arch = arch_of(device)
    monkeypatch.setitem(tuning.SHAPES, ("ntt pass", 8, arch), Shape(32, 1, "test"))
    monkeypatch.setitem(tuning.NUMBERS, ("ntt group", 8, arch), Number(((0, 2),), "test"))
    # the last pass of radix 8 or 2 has blocks of 32 lanes or more
    domain = Domain(8 if variants.choose(device).variant == "ptx" else 6)
    x = pack(sample(FR, 5 * domain.size, 8), FR, device).reshape(8, 5, domain.size)
    for name in ("ntt_dif", "intt_dit"):
        assert torch.equal(getattr(kernels, name)(x, domain), getattr(reference, name)(x, domain))


@pytest.mark.usefixtures("anew")
@pytest.mark.parametrize(("n_passes", "batch"), [(2, 3), (3, 1)])
def test_halves_and_distances_beyond_short_tables(
    device: torch.device, monkeypatch: pytest.MonkeyPatch, n_passes: int, batch: int
) -> None:
    """Of three vectors the middle one is cut in two; the second of three passes is a far one."""
    halves, radix_log = ("ntt halves", 8, arch_of(device)), ntt_code_on(device).max_radix_log
    monkeypatch.setitem(tuning.NUMBERS, halves, Number(((0, 1),), "test"))
    monkeypatch.setattr(twiddles, "LOG_SHORT", 2 * radix_log - 2)
    domain = Domain((n_passes - 1) * radix_log + 1)
    x = pack(sample(FR, batch * domain.size, 8), FR, device).reshape(8, batch, domain.size)
    for name in ("ntt_dif", "intt_dit"):
        expected = getattr(reference, name)(x, domain)
        # on a GPU the second time by a plan
        for _ in range(1 if INTERPRETED else 3):
            assert torch.equal(getattr(kernels, name)(x, domain), expected)


def test_the_sum_that_defines_it(device: torch.device) -> None:
    domain = Domain(4)
    values = sample(FR, 16, 9)
    assert unpack(kernels.ntt(pack(values, FR, device), domain)) == reference.naive_ntt(
        values, domain
    )


@pytest.mark.parametrize("value", [*edges(FR), (FR.modulus >> 224 << 224) + 1, 1 << 223])
def test_equal_elements(device: torch.device, value: int) -> None:
    """Sums of sums, where what is left over a modulus could build up."""
    domain = Domain(7)
    x = pack([value] * domain.size, FR, device)
    for name in ("ntt_dif", "intt_dit"):
        assert torch.equal(getattr(kernels, name)(x, domain), getattr(reference, name)(x, domain))


def test_a_view(device: torch.device) -> None:
    """Not contiguous, and not where 16-byte loads may start."""
    domain = Domain(4)
    x = pack(sample(FR, 37, 3), FR, device)[:, 3:19]
    flat = torch.cat((x.new_zeros(1), x.reshape(-1)))[1:].view(8, 16)
    for view in (x, flat):
        assert torch.equal(kernels.intt_dit(view, domain), reference.intt_dit(x, domain))


@pytest.mark.parametrize("n", [0, 1, 5, 127, 128, 129])
@pytest.mark.parametrize("shift", [7, 0, 1, FR.modulus - 2])
def test_coset_scale(device: torch.device, n: int, shift: int) -> None:
    x = pack(sample(FR, 2 * n, 5), FR, device).reshape(8, 2, n)
    assert torch.equal(kernels.coset_scale(x, shift), reference.coset_scale(x, shift))


def test_refusals(device: torch.device) -> None:
    x = torch.zeros(8, 4, dtype=torch.int32, device=device)
    for name in TRANSFORMS:
        with pytest.raises(LayoutError, match="a domain of 8 got vectors of 4"):
            getattr(kernels, name)(x, Domain(3))
    with pytest.raises(LayoutError):
        kernels.coset_scale(x.to(torch.int64), 7)


if not INTERPRETED:

    @pytest.mark.parametrize("log_n", [20, 24, 27, 28])
    def test_full_size(device: torch.device, log_n: int) -> None:
        """Values against the polynomial's, by powers of the point and one sum; and back."""
        if variants.choose(device).variant == "plain" and log_n > 20:
            pytest.skip("the plain variant takes the same path at every size")
        domain = Domain(log_n)
        x = torch.randint(-(1 << 31), 1 << 31, (8, domain.size), dtype=torch.int32, device=device)
        x[7].remainder_(FR.modulus >> 224)
        y = kernels.ntt_dif(x, domain)
        for j in (1, random.Random(log_n).randrange(domain.size), domain.size - 1):
            terms = kernels.coset_scale(x, pow(domain.omega, j, FR.modulus))
            value = sum(int((terms[i].long() & 0xFFFFFFFF).sum()) << 32 * i for i in range(8))
            at = int(format(j, f"0{log_n}b")[::-1], 2)
            assert unpack(y[:, at : at + 1]) == [value % FR.modulus]
        del terms
        assert torch.equal(kernels.ntt_dif(x, domain), y)
        assert torch.equal(kernels.intt_dit(y, domain), x)
