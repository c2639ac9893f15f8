"""The quotient of vectors that are not there at once against the quotient of those that are."""

from __future__ import annotations

import weakref

import pytest
import torch

from memory_tracker import peak_bytes
from ops.test_quotient import satisfied
from torchzk.backends import Backend, load_backend
from torchzk.errors import LayoutError
from torchzk.ops.quotient import held_in_turn_bytes, quotient_bytes, quotient_in_turn_bytes
from torchzk.params.domains import Domain

TORCH = load_backend("torch")


@pytest.mark.parametrize("log_n", [0, 1, 2, 5, 12, 13])
@pytest.mark.parametrize("log_split", [1, 3, 30])
def test_gives_the_bits_of_the_quotient(
    backend: Backend, device: torch.device, log_n: int, log_split: int
) -> None:
    """Also where more is to be split off than there is."""
    domain = Domain(log_n)
    vectors = dict(zip("abc", satisfied(domain, device), strict=True))
    # not only of what is satisfied
    for wrong in (False, True):
        vectors["c"][0, -1] ^= wrong
        expected = backend.quotient(vectors["a"], vectors["b"], vectors["c"], domain)
        got = backend.quotient_in_turn(lambda k: vectors[k].clone(), domain, log_split=log_split)
        assert torch.equal(got, expected) and got.is_contiguous()


def test_takes_each_vector_once_and_lets_it_go(backend: Backend, device: torch.device) -> None:
    domain = Domain(6)
    vectors = dict(zip("abc", satisfied(domain, device), strict=True))
    alive: dict[str, weakref.ref[torch.Tensor]] = {}
    taken: list[tuple[str, set[str]]] = []

    def vector(name: str) -> torch.Tensor:
        taken.append((name, {k for k, x in alive.items() if x() is not None}))
        x = vectors[name].clone()
        alive[name] = weakref.ref(x)
        return x

    h = backend.quotient_in_turn(vector, domain)
    assert torch.equal(h, backend.quotient(*vectors.values(), domain))
    assert [name for name, _ in taken] == ["b", "a", "c"]
    # one at most is there while the next is made
    assert all(len(there) <= 1 for _, there in taken)
    assert "b" not in taken[2][1]
    assert all(x() is None for x in alive.values())


def test_refusals(backend: Backend, device: torch.device) -> None:
    x = satisfied(Domain(4), device)[0]
    with pytest.raises(LayoutError, match="domain of 32"):
        backend.quotient_in_turn(lambda _: x.clone(), Domain(5))
    with pytest.raises(LayoutError, match="single vectors"):
        backend.quotient_in_turn(lambda _: x.unsqueeze(1), Domain(4))
    with pytest.raises(LayoutError, match="on one device"):
        backend.quotient_in_turn(lambda k: x.to("meta") if k == "a" else x.clone(), Domain(4))
    turned = x.t().contiguous().t()
    with pytest.raises(LayoutError, match="overwrites c, which has to be contiguous"):
        backend.quotient_in_turn(lambda k: turned if k == "c" else x.clone(), Domain(4))
    with pytest.raises(LayoutError, match="1 stage or more, got 0"):
        backend.quotient_in_turn(lambda _: x.clone(), Domain(4), log_split=0)


class TestMemory:
    """Of the reference, on the CPU, where pieces are short; what they take depends on no size."""

    DEVICE = torch.device("cpu")

    def pieces(self, log_n: int) -> tuple[int, int, int]:
        """What the quotient takes more than it says, in turn too, and while a vector is made."""
        domain = Domain(log_n)
        vectors = [torch.zeros(8, domain.size, dtype=torch.int32) for _ in range(3)]
        # what is derived once is there
        TORCH.quotient(*vectors, domain)
        at_once = peak_bytes(lambda: TORCH.quotient(*vectors, domain), self.DEVICE)
        in_turn = peak_bytes(
            lambda: TORCH.quotient_in_turn(lambda _: vectors[0].clone(), domain), self.DEVICE
        )
        extra = 1024 * domain.size

        def vector(name: str) -> torch.Tensor:
            if name != "b":
                # so large that the peak is there
                torch.empty(extra, dtype=torch.uint8)
            return vectors[0].clone()

        held = peak_bytes(lambda: TORCH.quotient_in_turn(vector, domain), self.DEVICE) - extra
        return (
            at_once - quotient_bytes(domain),
            in_turn - quotient_in_turn_bytes(domain),
            held - held_in_turn_bytes(domain),
        )

    def test_is_as_stated(self) -> None:
        at_once, in_turn, held = self.pieces(12)
        assert 0 <= at_once == in_turn < 2 << 20
        assert held == 0
        # an odd number of stages, and twice as many elements
        assert self.pieces(13) == (at_once, in_turn, 0)
