"""The quotient against the reference: interpreted, or compiled on a GPU; there at full size too.

About 20 s interpreted.
"""

from __future__ import annotations

import pytest
import torch

from torchzk.errors import LayoutError
from torchzk.ops.layout import pack
from torchzk.ops.quotient import quotient as reference
from torchzk.params.domains import Domain
from torchzk.params.fields import FR
from torchzk.triton_kernels import field, tuning, twiddles, variants
from torchzk.triton_kernels.launch import arch_of
from torchzk.triton_kernels.ntt import coset_scale, intt
from torchzk.triton_kernels.ntt_code import ntt_code_on
from torchzk.triton_kernels.quotient import quotient
from torchzk.triton_kernels.tuning import Number
from triton_kernels.lanes import INTERPRETED
from triton_kernels.samples import sample

pytestmark = pytest.mark.usefixtures("variant")
LOG_SIZES = [0, 1, 2, 3, 4, 6, 7, 9] if INTERPRETED else [*range(17)]


@pytest.mark.parametrize("log_n", LOG_SIZES)
def test_matches_the_reference(device: torch.device, log_n: int) -> None:
    """Of any three vectors, whether there is a quotient or not."""
    domain = Domain(log_n)
    a, b, c = (pack(sample(FR, domain.size, seed), FR, device) for seed in range(3))
    before = [x.clone() for x in (a, b, c)]
    expected = reference(a, b, c, domain)
    for _ in range(1 if INTERPRETED else 2):
        assert torch.equal(quotient(a, b, c, domain), expected)
    assert all(torch.equal(x, y) for x, y in zip((a, b, c), before, strict=True))


def test_a_product(device: torch.device) -> None:
    domain = Domain(5)
    a, b = (pack(sample(FR, 32, seed), FR, device) for seed in (1, 2))
    h = quotient(a, b, field.mont_mul(a, b, FR), domain)
    assert not h[:, -1].any() and h.any()


@pytest.mark.usefixtures("anew")
def test_halves_and_distances_beyond_short_tables(
    device: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second of three passes is short on the domain, and not on the coset."""
    radix_log = ntt_code_on(device).max_radix_log
    monkeypatch.setattr(twiddles, "LOG_SHORT", 2 * radix_log - 1)
    halves = ("ntt halves", 8, arch_of(device))
    monkeypatch.setitem(tuning.NUMBERS, halves, Number(((0, 1),), "test"))
    domain = Domain(2 * radix_log + 1)
    a, b, c = (pack(sample(FR, domain.size, seed), FR, device) for seed in range(3))
    expected = reference(a, b, c, domain)
    # on a GPU the second time by a plan
    for _ in range(1 if INTERPRETED else 3):
        assert torch.equal(quotient(a, b, c, domain), expected)


def test_refusals(device: torch.device) -> None:
    x = torch.zeros(8, 4, dtype=torch.int32, device=device)
    with pytest.raises(LayoutError, match="a domain of 8"):
        quotient(x, x, x, Domain(3))
    with pytest.raises(LayoutError, match="single vectors"):
        quotient(x[:, None], x[:, None], x[:, None], Domain(2))
    with pytest.raises(LayoutError, match="on one device"):
        quotient(x, x.to("meta"), x, Domain(2))


if not INTERPRETED:

    @pytest.mark.parametrize("log_n", [20, 24, 27])
    def test_full_size(device: torch.device, log_n: int) -> None:
        """h(z) (z^n - 1) = a(z) b(z) - c(z) at a point z."""
        if variants.choose(device).variant == "plain" and log_n > 20:
            pytest.skip("the plain variant takes the same path at every size")
        domain, p, z = Domain(log_n), FR.modulus, 0x1234567 << 200

        def value(x: torch.Tensor) -> int:
            terms = coset_scale(x, z)
            words = (int((terms[i].long() & 0xFFFFFFFF).sum()) << 32 * i for i in range(8))
            return FR.from_mont(sum(words))

        a, b = (
            torch.randint(-(1 << 31), 1 << 31, (8, domain.size), dtype=torch.int32, device=device)
            for _ in range(2)
        )
        for x in (a, b):
            x[7].remainder_(p >> 224)
        c = field.mont_mul(a, b, FR)
        h = quotient(a, b, c, domain)
        assert not h[:, -1].any()
        at_a, at_b, at_c = (value(intt(x, domain)) for x in (a, b, c))
        assert value(h) * (pow(z, domain.size, p) - 1) % p == (at_a * at_b - at_c) % p
        assert torch.equal(quotient(a, b, c, domain), h)
