"""Chains of products against integers: interpreted, or compiled on a GPU."""

from __future__ import annotations

import pytest
import torch

from torchzk.backends import load_backend
from torchzk.bench.arithmetic import chain
from torchzk.bench.cases import Benchmark
from torchzk.bench.workshop import Workshop
from torchzk.ops.layout import pack, unpack
from torchzk.params.fields import FIELDS, FP, PrimeField
from torchzk.triton_kernels import rate
from torchzk.triton_kernels.variants import field_code_on
from triton_kernels.samples import BLOCK, sample

pytestmark = pytest.mark.usefixtures("variant")
LENGTH = 8


@pytest.mark.parametrize("field", FIELDS.values(), ids=FIELDS)
def test_matches_integers(device: torch.device, field: PrimeField) -> None:
    p, n, code = field.modulus, BLOCK + 1, field_code_on(device, field)
    x, y = sample(field, n, 1), sample(field, n, 2)
    a, b = pack(x, field, device), pack(y, field, device)
    assert unpack(rate.chain("mul", a, b, LENGTH, code)) == [
        u * pow(v * field.r_inv, LENGTH, p) % p for u, v in zip(x, y, strict=True)
    ]
    assert unpack(rate.chain("add", a, b, LENGTH, code)) == [
        (u + LENGTH * v) % p for u, v in zip(x, y, strict=True)
    ]
    # a^(2^8) R^-(2^8 - 1)
    assert unpack(rate.chain("sqr", a, b, LENGTH, code)) == [
        pow(u, 1 << LENGTH, p) * pow(field.r_inv, (1 << LENGTH) - 1, p) % p for u in x
    ]
    assert (unpack(a), unpack(b)) == (x, y)


def test_fp2_matches_integers(device: torch.device) -> None:
    p, code = FP.modulus, field_code_on(device, FP, 2)
    x, y = ([sample(FP, 5, seed + k) for k in (0, 1)] for seed in (3, 5))
    a, b = (torch.cat([pack(v, FP, device) for v in pair]) for pair in (x, y))
    got = rate.chain("mul", a, b, LENGTH, code)
    for k, (u0, u1, v0, v1) in enumerate(zip(*x, *y, strict=True)):
        for _ in range(LENGTH):
            u0, u1 = (
                (u0 * v0 - u1 * v1) * FP.r_inv % p,
                (u0 * v1 + u1 * v0) * FP.r_inv % p,
            )
        assert unpack(got[:, k : k + 1].reshape(2, 12).t()) == [u0, u1]


def test_a_wave_is_whole_blocks(device: torch.device) -> None:
    code = field_code_on(device, FP)
    lanes = rate.whole_wave("mul", device, code)
    assert lanes > 0 and lanes % BLOCK == 0


def test_the_benchmark_judges_all_lanes(device: torch.device) -> None:
    shop = Workshop(load_backend("triton"), "triton", device)
    prepared = chain("mul", "fr")(Benchmark("field.mul.fr", 8), shop)
    out = prepared.call()
    assert prepared.how.startswith("in registers") and prepared.work == 8 * out.shape[1]
    assert prepared.is_right(out)
    out[7, -1] ^= 1
    assert not prepared.is_right(out)
