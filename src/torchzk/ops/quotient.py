"""The quotient polynomial h = (A B - C) / (X^n - 1) of a Groth16 proof, by six transforms.

Source: spec/groth16.md section 3, rearranged. There all three polynomials are evaluated on a coset
g omega^i, where X^n - 1 is the constant g^n - 1. But interpolating A B over that coset gives
h (g^n - 1) + C, since both sides have n coefficients and agree on n points; so C is never
evaluated, and h is the same polynomial on any coset.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from torchzk.errors import LayoutError
from torchzk.ops import wide, wide_fr, wide_ntt
from torchzk.ops.chunks import over_chunks
from torchzk.ops.ntt import bit_reversal, check_vectors
from torchzk.params.domains import Domain
from torchzk.params.fields import FR


def quotient(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor, domain: Domain) -> torch.Tensor:
    """Coefficients of h, where A, B and C take the values `a`, `b` and `c` on the domain.

    Args:
        a: Limb tensor `[8, n]` in Montgomery form, in natural order; also `b` and `c`.
        domain: The n-th roots of unity.

    Returns:
        `[8, n]` in Montgomery form, ascending. The last is zero if a b = c everywhere; if not, no
        h exists and the result means nothing.

    Raises:
        LayoutError: A vector is not `[8, n]`, or on another device.
    """
    for x in (a, b, c):
        check_vector(x, domain, a.device)
    return _quotient({"a": a, "b": b, "c": c}.__getitem__, domain)


def quotient_in_turn(
    vector: Callable[[str], torch.Tensor], domain: Domain, *, log_split: int = 3
) -> torch.Tensor:
    """As `quotient`, of vectors that are not there at the same time.

    Args:
        vector: Makes what `quotient` takes: `vector("b")`, then `vector("a")`, then `vector("c")`
            are called once each, when what came before has been used up. Each returns a new
            contiguous tensor, which is overwritten, and freed if nobody else holds it.
        domain: The n-th roots of unity.
        log_split: From 1 on. Tables and scratch are those of transforms of n / 2^log_split
            elements; the more stages are split off, the less memory and the more time. No more
            are than a domain has. The reference has no use for it.

    Returns:
        The bits of `quotient`.

    Raises:
        LayoutError: A vector is not a contiguous `[8, n]`, or on another device than the first;
            `log_split` is less than 1.
    """
    splits(log_split, domain)
    return _quotient(Turns(vector, domain), domain)


class Turns:
    """The vectors of `quotient_in_turn`, each checked when it is taken."""

    def __init__(self, vector: Callable[[str], torch.Tensor], domain: Domain) -> None:
        self._vector, self._domain = vector, domain
        self._device: torch.device | None = None

    def __call__(self, name: str) -> torch.Tensor:
        """`vector(name)`. Raise `LayoutError` unless it is as `quotient_in_turn` wants it."""
        x = self._vector(name)
        check_vector(x, self._domain, self._device)
        if not x.is_contiguous():
            raise LayoutError(f"the quotient overwrites {name}, which has to be contiguous")
        self._device = x.device
        return x


def quotient_bytes(domain: Domain) -> int:
    """The peak of `quotient` beside its arguments, its result included; pieces of it come on top.

    Four vectors of wide elements: one that is kept, one at work, its factors, and their product.
    """
    return 4 * 8 * wide.n_words(FR) * domain.size


def quotient_in_turn_bytes(domain: Domain, log_split: int = 3) -> int:
    """The peak of `quotient_in_turn`, vectors that it takes included; pieces of it on top."""
    splits(log_split, domain)
    return quotient_bytes(domain)


def held_in_turn_bytes(domain: Domain, log_split: int = 3) -> int:
    """What `quotient_in_turn` holds while `vector` runs: a vector of wide elements."""
    splits(log_split, domain)
    return 8 * wide.n_words(FR) * domain.size


def check_vector(x: torch.Tensor, domain: Domain, device: torch.device | None = None) -> None:
    """Raise `LayoutError` unless `x` is `[8, n]`, on `device` if one is given."""
    check_vectors(x, domain)
    if x.ndim != 2 or x.device != (device or x.device):
        got = f"{list(x.shape)} on {x.device}"
        raise LayoutError(f"the quotient takes single vectors on one device, got {got}")


def splits(log_split: int, domain: Domain) -> int:
    """`log_split`, or log_n if that is less. Raise `LayoutError` if it is not positive."""
    if log_split < 1:
        raise LayoutError(f"transforms are split by 1 stage or more, got {log_split}")
    return min(log_split, domain.log_n)


def _quotient(vector: Callable[[str], torch.Tensor], domain: Domain) -> torch.Tensor:
    """With b, a and c taken in this order."""
    p, n = FR.modulus, domain.size
    shift, log_half = domain.coset_shift, max(domain.log_n - 1, 0)
    on_coset = pow(shift, n, p) - 1
    inverse, omega = pow(domain.omega, -1, p), domain.omega

    # coefficients are in bit-reversed order until the end
    def interpolate(x: torch.Tensor) -> torch.Tensor:
        """n times the coefficients."""
        return wide_ntt.dif(x, wide_ntt.powers(inverse, log_half, x.device, bit_reversed=True))

    def by_powers(x: torch.Tensor, base: int, first: int) -> torch.Tensor:
        powers = wide_ntt.powers(base, domain.log_n, x.device, first=first, bit_reversed=True)
        return wide_fr.mul(x, powers)

    def evaluate(x: torch.Tensor) -> torch.Tensor:
        # one name: what it stood for is freed
        x = wide_fr.to_wide(x)
        x = interpolate(x)
        x = by_powers(x, shift, pow(n, -1, p))
        return wide_ntt.dit(x, wide_ntt.powers(omega, log_half, x.device))

    h = over_chunks(
        lambda x, y: wide.mul(wide.reduce(x, FR), wide.reduce(y, FR), FR),
        *(evaluate(vector(name)) for name in ("b", "a")),
    )
    h = interpolate(h)
    scale = pow(on_coset * n, -1, p)
    h = by_powers(h, pow(shift, -1, p), scale)
    c = wide_fr.to_wide(vector("c"))
    c = interpolate(c)
    h -= wide_fr.mul(c, wide_fr.constant(scale, h.device))
    del c
    return wide_fr.to_limbs(h)[:, bit_reversal(domain, h.device)]
