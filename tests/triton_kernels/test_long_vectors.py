"""Vectors of more than 2^31 limbs, which offsets of 32 bits do not reach, against integers.

On a GPU alone, with up to 50 GiB of memory; about a minute, most of it Python's.
"""

from __future__ import annotations

import importlib
import random
from collections.abc import Iterator

import pytest
import torch

from torchzk.ops.csr import Csr
from torchzk.ops.layout import ONE, OTHER, ZERO, pack_mont, unpack
from torchzk.params.domains import Domain
from torchzk.params.fields import FR
from torchzk.triton_kernels import (
    classes,
    first_unsatisfied,
    from_mont_at,
    intt,
    mont_mul,
    ntt,
    scale,
    spmv,
    sub,
)
from torchzk.triton_kernels.msm_digits import NO_KEY, Windows, digits

# the package's name for the module is that of its function
naive_ntt = importlib.import_module("torchzk.ops.ntt").naive_ntt

LOG = 28
N = (1 << LOG) + 3
GIB = 60
P, R_INV = FR.modulus, FR.r_inv


def _room() -> bool:
    if not torch.cuda.is_available():
        return False
    return torch.cuda.get_device_properties(0).total_memory >= GIB << 30


pytestmark = pytest.mark.skipif(not _room(), reason=f"needs CUDA with {GIB} GiB")


@pytest.fixture(autouse=True)
def room() -> Iterator[None]:
    """What an earlier test has left in the allocator is given back."""
    torch.cuda.empty_cache()
    yield
    torch.cuda.empty_cache()


def elements(device: torch.device, *batch: int) -> torch.Tensor:
    """Limbs `[8, *batch]` of random elements."""
    x = torch.randint(-(1 << 31), 1 << 31, (8, *batch), dtype=torch.int32, device=device)
    x[7].remainder_(P >> 224)
    return x


def places(n: int) -> list[int]:
    """Random ones, the ends, and limb 2^31 of eight planes of `n` with its neighbours."""
    beyond = (8 << LOG) - 7 * n
    assert 0 < beyond < n
    rng = random.Random(n)
    inside = [rng.randrange(n) for _ in range(20)]
    return [0, 1, n - 1, n - 2, beyond - 1, beyond, beyond + 1, *inside]


def at(x: torch.Tensor, index: list[int]) -> list[int]:
    """Some elements of planes `[8, n]` as integers."""
    return unpack(x[:, torch.tensor(index, device=x.device)])


def test_field(device: torch.device) -> None:
    a, b, index = elements(device, N), elements(device, N), places(N)
    x, y = at(a, index), at(b, index)
    got = mont_mul(a, b, FR)
    assert at(got, index) == [u * v * R_INV % P for u, v in zip(x, y, strict=True)]
    assert torch.equal(mont_mul(a, b, FR), got)
    assert at(sub(a, b, FR), index) == [(u - v) % P for u, v in zip(x, y, strict=True)]
    assert at(scale(a, 5, FR), index) == [5 * u % P for u in x]


@pytest.mark.parametrize("log_n", [3, 10])
def test_transforms(device: torch.device, log_n: int) -> None:
    """As many vectors as it takes: in one pass, and in several whose results lie in rows."""
    domain = Domain(log_n)
    count = (1 << LOG - log_n) + 1
    x = elements(device, count, domain.size)
    y = ntt(x, domain)
    # vectors at random, the first and the last, all of which lies beyond limb 2^31 in plane 7
    for k in (0, random.Random(log_n).randrange(count), count - 1):
        values = unpack(x[:, k])
        assert unpack(y[:, k]) == naive_ntt(values, domain)
    assert torch.equal(ntt(x, domain), y)
    assert torch.equal(intt(y, domain), x)


def test_sparse_products(device: torch.device) -> None:
    """A row for each element, of one term, in an order that jumps about."""
    z, index = elements(device, N), places(N)
    factor = 0x9E3779B1
    rows = torch.arange(N + 1, device=device)
    cols = rows[:-1] * factor % N
    coefficients = rows[:-1] % 3
    table = [1, P - 1, 1 << 200]
    matrix = Csr(rows, cols, coefficients, pack_mont(table, FR, device), N)
    got = spmv(matrix, z)
    terms = at(z, [i * factor % N for i in index])
    assert at(got, index) == [table[i % 3] * v % P for i, v in zip(index, terms, strict=True)]
    assert torch.equal(spmv(matrix, z), got)


def test_values(device: torch.device) -> None:
    """Classes, canonical values by an index that turns everything round, and rows."""
    x, index = elements(device, N), places(N)
    x[:, index[::2]] = pack_mont([1], FR, device)
    x[:, index[1::4]] = 0
    values = at(x, index)
    known = {0: ZERO, FR.to_mont(1): ONE}
    kinds = classes(x)
    assert kinds[torch.tensor(index, device=device)].tolist() == [
        known.get(v, OTHER) for v in values
    ]
    back = torch.arange(N - 1, -1, -1, dtype=torch.int32, device=device)
    out = torch.empty_like(x)
    from_mont_at(x, back, out)
    assert at(out, [N - 1 - i for i in index]) == [FR.from_mont(v) for v in values]
    from_mont_at(x, None, x)
    assert torch.equal(x, out.flip(1))
    square = mont_mul(x, x, FR)
    assert int(first_unsatisfied(x, x, square)) == N
    for row in (N - 1, (8 << LOG) - 7 * N, 5):
        square[7, row] ^= 1
        assert int(first_unsatisfied(x, x, square)) == row


def test_digits(device: torch.device) -> None:
    """Every scalar is the sum of its digits."""
    x, index = elements(device, N), places(N)
    windows = Windows(16, 1 << 255)
    read = digits(x, windows)
    at_index = torch.tensor(index, device=device)
    got = [0] * len(index)
    for w in range(windows.count):
        keys = read.keys(w, w + 1)
        assert torch.equal(read.keys(w, w + 1), keys)
        for i, key in enumerate(keys[0, at_index].tolist()):
            if key != NO_KEY:
                size = key >> 1 or windows.sizes
                got[i] += (-size if key & 1 else size) << windows.bits * w
    assert got == at(x, index)
    del keys
    # and all windows of more than 2^27 scalars are more than 2^31 keys
    whole = read.keys(0, 9)
    for w in (0, 7, 8):
        row = read.keys(w, w + 1)[0]
        none = row == NO_KEY
        assert torch.equal(whole[w].masked_fill(none, NO_KEY), whole[w])
        assert torch.equal((whole[w] - 2 * windows.sizes * w).masked_fill(none, NO_KEY), row)
