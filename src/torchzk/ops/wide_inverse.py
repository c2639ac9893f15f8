"""Many inverses for the price of one, on wide elements.

Source: P. Montgomery's trick, as a tree: products of pairs upwards, inverses downwards. The tree
stops where a tensor operation costs more than its arithmetic, and Python's integers do the rest.
"""

from __future__ import annotations

import torch

from torchzk.ops import wide
from torchzk.ops.layout import pack, unpack
from torchzk.params.fields import PrimeField

# below this many elements an inversion is left to Python's integers
_HOST_INVERSES = 64


def inverse(a: torch.Tensor, field: PrimeField) -> torch.Tensor:
    """Inverses R^2 a^-1 of normal elements `[W, n]` in Montgomery form, none of which is zero."""
    n = a.shape[1]
    if n <= _HOST_INVERSES:
        limbs = pack(_inverses(unpack(wide.to_limbs(a, field)), field), field, a.device)
        return wide.from_limbs(limbs, field)
    half = n // 2
    left, right, rest = a[:, :half], a[:, half : 2 * half], a[:, 2 * half :]
    product = wide.mul(left, right, field)
    above = inverse(torch.cat((product, rest), dim=1) if n % 2 else product, field)
    pair = above[:, :half]
    below = wide.mul(torch.cat((pair, pair), dim=1), torch.cat((right, left), dim=1), field)
    return torch.cat((below, above[:, half:]), dim=1) if n % 2 else below


def inverse_ext(a: torch.Tensor, field: PrimeField) -> torch.Tensor:
    """The same for coordinates `[d, W, n]`: in Fp2 conj(a) / (c0^2 + c1^2)."""
    if a.shape[0] == 1:
        return inverse(a[0], field).unsqueeze(0)
    scale = inverse(wide.norm(a, field), field)
    return torch.stack((wide.mul(a[0], scale, field), wide.mul(-a[1], scale, field)))


def _inverses(values: list[int], field: PrimeField) -> list[int]:
    """R^2 v^-1 mod p of integers that are not zero, by one inversion."""
    p = field.modulus
    before, product = [], 1
    for v in values:
        before.append(product)
        product = product * v % p
    # a holds x R, its inverse x^-1 R
    rest = pow(product, -1, p) * field.r**2 % p
    out = []
    for v, prefix in zip(reversed(values), reversed(before), strict=True):
        out.append(rest * prefix % p)
        rest = rest * v % p
    return out[::-1]
