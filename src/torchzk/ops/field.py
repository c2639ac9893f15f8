"""Reference field arithmetic over limb tensors `[L, *batch]`, in plain PyTorch on any device."""

from __future__ import annotations

from collections.abc import Callable

import torch

from torchzk.ops import wide
from torchzk.ops.chunks import over_chunks, point_chunk_size
from torchzk.ops.layout import check_limbs, check_pair
from torchzk.ops.wide_inverse import inverse
from torchzk.params.fields import PrimeField


def _map(f: Callable[..., torch.Tensor], field: PrimeField, *xs: torch.Tensor) -> torch.Tensor:
    """Apply `f` on wide elements to limb tensors of one shape."""
    shape = xs[0].shape
    flat = [x.reshape(x.shape[0], -1) for x in xs]

    def on_limbs(*chunk: torch.Tensor) -> torch.Tensor:
        return wide.to_limbs(f(*(wide.from_limbs(x, field) for x in chunk)), field)

    return over_chunks(on_limbs, *flat).view(shape)


def add(a: torch.Tensor, b: torch.Tensor, field: PrimeField) -> torch.Tensor:
    """a + b mod p, elementwise.

    Args:
        a: Limb tensor `[L, *batch]`, int32, values in [0, p).
        b: Same shape, dtype and device as `a`.
        field: The prime field; `L = field.n_limbs`.

    Returns:
        A new limb tensor `[L, *batch]`, values in [0, p).

    Raises:
        LayoutError: `a` or `b` is not a limb tensor of `field`, or they differ in shape.
    """
    check_pair(a, b, field)
    return _map(lambda x, y: x + y, field, a, b)


def sub(a: torch.Tensor, b: torch.Tensor, field: PrimeField) -> torch.Tensor:
    """a - b mod p; see `add`."""
    check_pair(a, b, field)
    return _map(lambda x, y: x - y, field, a, b)


def neg(a: torch.Tensor, field: PrimeField) -> torch.Tensor:
    """-a mod p; see `add`."""
    check_limbs(a, field)
    return _map(lambda x: -x, field, a)


def mont_mul(a: torch.Tensor, b: torch.Tensor, field: PrimeField) -> torch.Tensor:
    """Montgomery product a b R^-1 mod p; see `add`."""
    check_pair(a, b, field)
    return _map(lambda x, y: wide.mul(x, y, field), field, a, b)


def mont_sqr(a: torch.Tensor, field: PrimeField) -> torch.Tensor:
    """Montgomery square a a R^-1 mod p; see `add`."""
    check_limbs(a, field)
    return _map(lambda x: wide.mul(x, x, field), field, a)


def scale(a: torch.Tensor, factor: int, field: PrimeField) -> torch.Tensor:
    """a times the canonical integer `factor`, mod p; the form of `a` is kept."""
    check_limbs(a, field)
    k = wide.constant(field.to_mont(factor % field.modulus), field, a.device)
    return _map(lambda x: wide.mul(x, k, field), field, a)


def to_mont(a: torch.Tensor, field: PrimeField) -> torch.Tensor:
    """Canonical values, which may be anything below 2^(32 L), to Montgomery form, a R mod p."""
    return scale(a, field.r, field)


def from_mont(a: torch.Tensor, field: PrimeField) -> torch.Tensor:
    """Montgomery form to canonical values, a R^-1 mod p."""
    return scale(a, field.r_inv, field)


def is_zero(a: torch.Tensor) -> torch.Tensor:
    """Which elements of a limb tensor `[L, *batch]` are zero: bool `[*batch]`."""
    return (a == 0).all(dim=0)


def batch_inverse(a: torch.Tensor, field: PrimeField) -> torch.Tensor:
    """Inverses a^-1 in Montgomery form, R^2 a^-1; zero gives zero.

    Args:
        a: Limb tensor `[L, *batch]` in Montgomery form.
        field: The prime field.

    Returns:
        A new limb tensor `[L, *batch]` in Montgomery form.

    Source:
        P. Montgomery's trick; see `torchzk.ops.wide_inverse`.
    """
    check_limbs(a, field)
    one = wide.constant(field.r, field, a.device)

    def on_limbs(x: torch.Tensor) -> torch.Tensor:
        zero = is_zero(x)
        safe = torch.where(zero, one, wide.from_limbs(x, field))
        return torch.where(zero, 0, wide.to_limbs(inverse(safe, field), field))

    flat = a.reshape(a.shape[0], -1)
    return over_chunks(on_limbs, flat, size=point_chunk_size(a.device)).view(a.shape)
