"""Passes over values against Python integers."""

from __future__ import annotations

import random

import pytest
import torch

from torchzk.backends import Backend
from torchzk.errors import LayoutError
from torchzk.ops.layout import ONE, OTHER, ZERO, pack, pack_mont, unpack
from torchzk.params.fields import FR

P = FR.modulus
# what a word or a form taken for another would confuse: 1 and R, whose limbs are those of 1
EDGES = [0, 1, 2, P - 1, FR.r_inv, FR.r % P, 1 << 32, 1 << 224, P >> 1]


def mixed(n: int) -> list[int]:
    rng = random.Random(n)
    return [rng.choice([0, 1, 0, 1, *EDGES, rng.randrange(P)]) for _ in range(n)]


@pytest.mark.parametrize("n", [0, 1, 5, 2049])
def test_classes(n: int, backend: Backend, device: torch.device) -> None:
    values = mixed(n)
    got = backend.classes(pack_mont(values, FR, device))
    assert got.dtype == torch.uint8
    assert got.tolist() == [{0: ZERO, 1: ONE}.get(v, OTHER) for v in values]


def test_classes_look_at_every_word(backend: Backend, device: torch.device) -> None:
    unit = pack_mont([1], FR, device)
    words = torch.cat([torch.zeros_like(unit), unit], dim=1)
    for i in range(8):
        for bit in (1, 1 << 27):
            other = words.clone()
            other[i] ^= bit
            assert backend.classes(other).tolist() == [OTHER, OTHER]
    assert backend.classes(words).tolist() == [ZERO, ONE]


@pytest.mark.parametrize("n", [1, 300, 5000])
def test_chosen_values_in_canonical_form(n: int, backend: Backend, device: torch.device) -> None:
    values, rng = mixed(n), random.Random(1)
    x = pack_mont(values, FR, device)
    names = [rng.randrange(n) for _ in range(2 * n + 1)]
    index = torch.tensor(names, dtype=torch.int32, device=device)
    wide = torch.full((8, 2 * n + 9), -7, dtype=torch.int32, device=device)
    backend.from_mont_at(x, index, wide[:, 3 : 2 * n + 4])
    assert unpack(wide[:, 3 : 2 * n + 4]) == [values[i] for i in names]
    assert (wide[:, :3] == -7).all() and (wide[:, 2 * n + 4 :] == -7).all()
    # a slice, and nothing
    some = torch.empty(8, n - 1, dtype=torch.int32, device=device)
    backend.from_mont_at(x[:, 1:], None, some)
    assert unpack(some) == values[1:]
    backend.from_mont_at(x, index[:0], wide[:, :0])
    # in place
    backend.from_mont_at(x, None, x)
    assert unpack(x) == values


@pytest.mark.parametrize("n", [1, 130, 5000])
def test_the_first_row_that_does_not_hold(n: int, backend: Backend, device: torch.device) -> None:
    a, b = mixed(n), mixed(n)[::-1]
    c = [u * v % P for u, v in zip(a, b, strict=True)]
    planes = [pack_mont(x, FR, device) for x in (a, b, c)]
    first = backend.first_unsatisfied(*planes)
    assert first.dtype == torch.int64 and first.shape == () and int(first) == n
    # later ones first, each in another word
    for i, row in enumerate(sorted({n - 1, n // 2, n // 2 - n // 5, 0}, reverse=True)):
        planes[2][7 - i, row] ^= 1
        assert int(backend.first_unsatisfied(*planes)) == row
    none = [x[:, :0] for x in planes]
    assert int(backend.first_unsatisfied(*none)) == 0


def test_layout_faults_are_refused(backend: Backend, device: torch.device) -> None:
    x = pack([1, 2, 3], FR, device)
    index = torch.zeros(2, dtype=torch.int32, device=device)
    with pytest.raises(LayoutError, match="int32"):
        backend.classes(x.to(torch.int64))
    with pytest.raises(LayoutError, match=r"is \[8, n\]"):
        backend.classes(x.unsqueeze(2))
    with pytest.raises(LayoutError, match=r"an index is int32 \[k\], got torch.int64"):
        backend.from_mont_at(x, index.to(torch.int64), x[:, :2])
    for out in (x, x.t().contiguous().repeat(3, 1)[:8].t()[:, :2]):
        with pytest.raises(LayoutError):
            backend.from_mont_at(x, index, out)
    with pytest.raises(LayoutError, match="side by side"):
        backend.from_mont_at(x, None, x[:, :2])
    with pytest.raises(LayoutError, match="differ"):
        backend.first_unsatisfied(x, x, x[:, :2])
