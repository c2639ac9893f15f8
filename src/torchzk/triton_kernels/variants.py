"""Which variant runs on a device: decided by a known-answer test at first use, and reported.

Inline PTX is faster, but what runs is what ptxas makes of it, and ptxas has miscompiled carries
before. So the kernels themselves multiply, add and subtract numbers whose carries run through
every word, and Python's integers judge. If PTX fails, plain Triton runs, with a warning; if that
fails as well, the device is refused.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import product

import torch
import triton

from torchzk.errors import ResourceError
from torchzk.ops.layout import pack, unpack
from torchzk.params.fields import FP, FR, PrimeField
from torchzk.triton_kernels import elementwise, rate
from torchzk.triton_kernels.code import FieldCode, Variant, field_code

_LOG = logging.getLogger(__name__)
# products in a row: whole rounds of the loop
_CHAIN = 8


@dataclass(frozen=True)
class Choice:
    """What runs on a device, and where that was found out."""

    variant: Variant
    device: str
    triton: str
    wrong: tuple[str, ...] = ()
    """Operations that PTX got wrong, if any."""

    def __str__(self) -> str:
        why = f"; PTX is wrong in {', '.join(self.wrong)}" if self.wrong else ""
        return f"{self.variant} on {self.device}, Triton {self.triton}{why}"


def field_code_on(device: torch.device, field: PrimeField, degree: int = 1) -> FieldCode:
    """The code for a field on a device, in the variant that was chosen there."""
    return field_code(field, degree, choose(device).variant)


@cache
def choose(device: torch.device) -> Choice:
    """The variant that runs on `device`.

    Raises:
        ResourceError: The device runs no Triton kernels, or computes wrongly in both variants.
    """
    if device.type != "cuda":
        if isinstance(elementwise.binary_kernel, triton.JITFunction):
            raise ResourceError(f"the triton backend needs a CUDA device, got {device}; use torch")
        return Choice("plain", f"{device}, interpreted", triton.__version__)
    name = torch.cuda.get_device_name(device)
    # PTX is NVIDIA's
    candidates: tuple[Variant, ...] = ("plain",) if torch.version.hip else ("ptx", "plain")
    wrong: tuple[str, ...] = ()
    for variant in candidates:
        wrong_here = mistakes(device, variant)
        if not wrong_here:
            choice = Choice(variant, name, triton.__version__, wrong)
            _LOG.log(logging.WARNING if wrong else logging.INFO, "field arithmetic: %s", choice)
            return choice
        wrong = wrong or wrong_here
    raise ResourceError(
        f"{name}: kernels compiled by Triton {triton.__version__} compute wrongly "
        f"({', '.join(wrong)}); install another Triton or ptxas, or use the torch backend"
    )


def mistakes(device: torch.device, variant: Variant) -> tuple[str, ...]:
    """The operations whose kernels, compiled for `device`, give a wrong known answer."""
    wrong: list[str] = []
    for field in (FR, FP):
        wrong += _prime_mistakes(field, device, field_code(field, 1, variant))
    wrong += _fp2_mistakes(FP, device, field_code(FP, 2, variant))
    return tuple(wrong)


def edges(field: PrimeField) -> list[int]:
    """Elements whose carries and borrows run far, or not at all."""
    p, n = field.modulus, field.n_limbs
    ones = (1 << 32 * (n - 1)) - 1
    stripes = sum(0xFFFFFFFF << 32 * i for i in range(0, n - 1, 2))
    return [0, 1, p - 1, field.r, p - field.r, ones, stripes, p - stripes, p >> 1, p - (1 << 32)]


def _prime_mistakes(field: PrimeField, device: torch.device, code: FieldCode) -> list[str]:
    p, inv = field.modulus, field.r_inv
    x, y = zip(*product(edges(field), repeat=2), strict=True)
    a, b = pack(x, field, device), pack(y, field, device)
    binary: dict[elementwise.Binary, Callable[[int, int], int]] = {
        "add": lambda u, v: (u + v) % p,
        "sub": lambda u, v: (u - v) % p,
        "mul": lambda u, v: u * v * inv % p,
    }
    unary: dict[elementwise.Unary, Callable[[int], int]] = {
        "neg": lambda u: -u % p,
        "sqr": lambda u: u * u * inv % p,
    }
    good: dict[str, bool] = {}
    for op, f in binary.items():
        good[op] = unpack(elementwise.binary(op, a, b, code)) == list(map(f, x, y))
    for name, g in unary.items():
        good[name] = unpack(elementwise.unary(name, a, code)) == list(map(g, x))
    scaled = unpack(elementwise.scale(a, y[1], code))
    good["scale"] = scaled == [u * y[1] % p for u in x]
    # in a loop, where the compiler would like a result to lie where an argument lay
    powers = unpack(rate.chain("mul", a, b, _CHAIN, code))
    good["chain"] = powers == [u * pow(v * inv, _CHAIN, p) % p for u, v in zip(x, y, strict=True)]
    return [f"{field.name} {op}" for op, right in good.items() if not right]


def _fp2_mistakes(field: PrimeField, device: torch.device, code: FieldCode) -> list[str]:
    p, inv, n = field.modulus, field.r_inv, field.n_limbs
    elements = [(u, v) for u in edges(field) for v in edges(field)]
    pairs = list(zip(elements, elements[37:] + elements[:37], strict=True))
    a, b = (
        torch.cat([pack([pair[k][c] for pair in pairs], field, device) for c in (0, 1)])
        for k in (0, 1)
    )

    def right(got: torch.Tensor, expected: list[tuple[int, int]]) -> bool:
        return list(zip(unpack(got[:n]), unpack(got[n:]), strict=True)) == expected

    def times(u: tuple[int, int], v: tuple[int, int]) -> tuple[int, int]:
        return (u[0] * v[0] - u[1] * v[1]) * inv % p, (u[0] * v[1] + u[1] * v[0]) * inv % p

    chained = [u for u, _ in pairs]
    for _ in range(_CHAIN):
        chained = [times(u, v) for u, (_, v) in zip(chained, pairs, strict=True)]
    good = {
        "chain": right(rate.chain("mul", a, b, _CHAIN, code), chained),
        "mul": right(elementwise.binary("mul", a, b, code), [times(u, v) for u, v in pairs]),
        "sqr": right(elementwise.unary("sqr", a, code), [times(u, u) for u, _ in pairs]),
    }
    return [f"Fp2 {op}" for op, ok in good.items() if not ok]
