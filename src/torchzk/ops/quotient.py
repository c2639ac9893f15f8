"""The quotient polynomial h = (A B - C) / (X^n - 1) of a Groth16 proof, by six transforms.

Source: spec/groth16.md section 3, rearranged. There all three polynomials are evaluated on a coset
g omega^i, where X^n - 1 is the constant g^n - 1. But interpolating A B over that coset gives
h (g^n - 1) + C, since both sides have n coefficients and agree on n points; so C is never
evaluated, and h is the same polynomial on any coset.
"""

from __future__ import annotations

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
        check_vectors(x, domain)
        if x.ndim != 2 or x.device != a.device:
            got = f"{list(x.shape)} on {x.device}"
            raise LayoutError(f"the quotient takes single vectors on one device, got {got}")
    p, n, device = FR.modulus, domain.size, a.device
    shift, log_half = domain.coset_shift, max(domain.log_n - 1, 0)
    on_coset = pow(shift, n, p) - 1

    # coefficients are in bit-reversed order until the end
    down = wide_ntt.powers(pow(domain.omega, -1, p), log_half, device, bit_reversed=True)
    up = wide_ntt.powers(domain.omega, log_half, device)
    to_coset = wide_ntt.powers(shift, domain.log_n, device, first=pow(n, -1, p), bit_reversed=True)

    def evaluate(x: torch.Tensor) -> torch.Tensor:
        coefficients = wide_ntt.dif(wide_fr.to_wide(x), down)
        return wide_ntt.dit(wide_fr.mul(coefficients, to_coset), up)

    product = over_chunks(
        lambda x, y: wide.mul(wide.reduce(x, FR), wide.reduce(y, FR), FR), evaluate(a), evaluate(b)
    )
    scale = pow(on_coset * n, -1, p)
    from_coset = wide_ntt.powers(
        pow(shift, -1, p), domain.log_n, device, first=scale, bit_reversed=True
    )
    h = wide_fr.mul(wide_ntt.dif(product, down), from_coset)
    h -= wide_fr.mul(wide_ntt.dif(wide_fr.to_wide(c), down), wide_fr.constant(scale, device))
    return wide_fr.to_limbs(h)[:, bit_reversal(domain, device)]
