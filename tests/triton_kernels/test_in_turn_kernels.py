"""The quotient of vectors taken in turn: interpreted, or compiled on a GPU; there at full size too.

About 20 s interpreted.
"""

from __future__ import annotations

import weakref

import pytest
import torch

from memory_tracker import peak_bytes
from torchzk.errors import LayoutError
from torchzk.ops.layout import pack
from torchzk.ops.quotient import quotient as reference
from torchzk.params.domains import Domain
from torchzk.params.fields import FR
from torchzk.triton_kernels import ntt_split, twiddles
from torchzk.triton_kernels.quotient import quotient, quotient_bytes
from torchzk.triton_kernels.quotient_in_turn import quotient_in_turn, quotient_in_turn_bytes
from triton_kernels.lanes import INTERPRETED
from triton_kernels.samples import sample

pytestmark = pytest.mark.usefixtures("variant")
# log_n and log_split: nothing left to split, all split off, one pass for what is left, several
CASES = [(0, 3), (1, 1), (2, 3), (4, 1), (5, 30), (6, 3), (8, 1)]
if not INTERPRETED:
    CASES = [(log_n, log_split) for log_n in range(17) for log_split in (1, 2, 3, 4, 30)]


def vectors(domain: Domain, device: torch.device) -> dict[str, torch.Tensor]:
    """Any three, whether there is a quotient or not."""
    made = (pack(sample(FR, domain.size, seed), FR, device) for seed in range(3))
    return dict(zip("abc", made, strict=True))


@pytest.mark.parametrize(("log_n", "log_split"), CASES)
def test_matches_the_reference(device: torch.device, log_n: int, log_split: int) -> None:
    domain = Domain(log_n)
    all_three = vectors(domain, device)
    expected = reference(all_three["a"], all_three["b"], all_three["c"], domain)
    for _ in range(1 if INTERPRETED else 2):
        got = quotient_in_turn(lambda k: all_three[k].clone(), domain, log_split=log_split)
        assert torch.equal(got, expected)


def test_takes_each_vector_once_and_lets_it_go(device: torch.device) -> None:
    domain = Domain(3)
    all_three = vectors(domain, device)
    alive: dict[str, weakref.ref[torch.Tensor]] = {}
    taken: list[tuple[str, list[str]]] = []

    def vector(name: str) -> torch.Tensor:
        taken.append((name, [k for k, x in alive.items() if x() is not None]))
        x = all_three[name].clone()
        alive[name] = weakref.ref(x)
        return x

    quotient_in_turn(vector, domain)
    assert taken == [("b", []), ("a", ["b"]), ("c", ["a"])]
    assert all(x() is None for x in alive.values())


def test_refusals(device: torch.device) -> None:
    x = torch.zeros(8, 4, dtype=torch.int32, device=device)
    with pytest.raises(LayoutError, match="a domain of 8"):
        quotient_in_turn(lambda _: x, Domain(3))
    with pytest.raises(LayoutError, match="single vectors"):
        quotient_in_turn(lambda _: x[:, None], Domain(2))
    with pytest.raises(LayoutError, match="on one device"):
        quotient_in_turn(lambda k: x.to("meta") if k == "a" else x.clone(), Domain(2))
    with pytest.raises(LayoutError, match="contiguous"):
        quotient_in_turn(lambda _: x.t().contiguous().t(), Domain(2))
    with pytest.raises(LayoutError, match="1 stage or more"):
        quotient_in_turn(lambda _: x.clone(), Domain(2), log_split=0)


if not INTERPRETED:

    @pytest.mark.parametrize("log_n", [20, 24, 27])
    def test_full_size(device: torch.device, variant: str, log_n: int) -> None:
        """The bits of `quotient`; both take what they say, and the ends of CUDA's blocks."""
        if variant == "plain":
            pytest.skip("the plain variant takes the same path at every size")
        domain = Domain(log_n)

        def vector(name: str) -> torch.Tensor:
            torch.manual_seed("abc".index(name))
            x = torch.empty(8, domain.size, dtype=torch.int32, device=device)
            x.random_(-(1 << 31), 1 << 31)
            x[7].remainder_(FR.modulus >> 224)
            return x

        for cached in (twiddles.roots, twiddles.short_roots, ntt_split.powers):
            cached.cache_clear()
        torch.cuda.empty_cache()
        got: list[torch.Tensor] = []

        def run() -> None:
            got.append(quotient_in_turn(vector, domain))

        peak = peak_bytes(run, device)
        stated = quotient_in_turn_bytes(domain)
        assert 0.98 * stated <= peak <= stated + (16 << 20)
        twiddles.roots.cache_clear()
        twiddles.short_roots.cache_clear()
        a, b, c = (vector(name) for name in "abc")
        expected: list[torch.Tensor] = []
        peak = peak_bytes(lambda: expected.append(quotient(a, b, c, domain)), device)
        assert 0.98 * quotient_bytes(domain) <= peak <= quotient_bytes(domain) + (16 << 20)
        assert torch.equal(got[0], expected[0])
        assert torch.equal(quotient_in_turn(vector, domain), expected[0])
