"""Number-theoretic transforms over Fr, along the last axis of limb tensors `[8, *batch, n]`.

X_k = sum_j x_j omega^(j k). The forward transform takes natural order to bit-reversed and the
inverse takes it back, so that a round trip permutes nothing. Source: spec/groth16.md section 2.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from torchzk.errors import LayoutError
from torchzk.ops import wide_fr, wide_ntt
from torchzk.ops.layout import check_limbs
from torchzk.params.domains import Domain
from torchzk.params.fields import FR


def ntt_dif(x: torch.Tensor, domain: Domain) -> torch.Tensor:
    """The transform, natural order in, bit-reversed order out.

    Args:
        x: Limb tensor `[8, *batch, n]`, int32, values in [0, r); n is the size of `domain`.
        domain: The n-th roots of unity.

    Returns:
        A new limb tensor of the same shape and form (Montgomery or canonical).

    Raises:
        LayoutError: `x` is not a limb tensor of Fr, or its last axis is not as long as `domain`.
    """
    check_vectors(x, domain)
    twiddles = wide_ntt.powers(domain.omega, max(domain.log_n - 1, 0), x.device, bit_reversed=True)
    return _each(lambda v: wide_ntt.dif(v, twiddles), x)


def intt_dit(x: torch.Tensor, domain: Domain) -> torch.Tensor:
    """The inverse transform with its 1/n, bit-reversed order in, natural order out.

    Shapes and errors are those of `ntt_dif`.
    """
    check_vectors(x, domain)
    inverse = pow(domain.omega, -1, FR.modulus)
    twiddles = wide_ntt.powers(inverse, max(domain.log_n - 1, 0), x.device)
    scale = wide_fr.constant(pow(domain.size, -1, FR.modulus), x.device)
    return _each(lambda v: wide_fr.mul(wide_ntt.dit(v, twiddles), scale), x)


def ntt(x: torch.Tensor, domain: Domain) -> torch.Tensor:
    """The transform, natural order in and out; see `ntt_dif`."""
    return ntt_dif(x, domain)[..., bit_reversal(domain, x.device)]


def intt(x: torch.Tensor, domain: Domain) -> torch.Tensor:
    """The inverse transform with its 1/n, natural order in and out; see `intt_dit`."""
    check_vectors(x, domain)
    return intt_dit(x[..., bit_reversal(domain, x.device)], domain)


def naive_ntt(values: Sequence[int], domain: Domain) -> list[int]:
    """The sum that defines the transform, on canonical integers: the judge of the others."""
    n, p = domain.size, FR.modulus
    roots = [pow(domain.omega, k, p) for k in range(n)]
    return [sum(v * roots[j * k % n] for j, v in enumerate(values)) % p for k in range(n)]


def coset_scale(x: torch.Tensor, shift: int) -> torch.Tensor:
    """Element i along the last axis times `shift`^i: coefficients of f(X) to those of f(shift X).

    Args:
        x: Limb tensor `[8, *batch, n]`, in natural order.
        shift: A canonical integer.

    Returns:
        A new limb tensor of the same shape and form.

    Raises:
        LayoutError: `x` is not a limb tensor of Fr.
    """
    check_limbs(x, FR)
    n = x.shape[-1]
    factors = wide_ntt.powers(shift, max(n - 1, 0).bit_length(), x.device)[:, :n]
    return _each(lambda v: wide_fr.mul(v, factors), x)


def bit_reversal(domain: Domain, device: torch.device) -> torch.Tensor:
    """int64 `[n]`: at i, the index whose `log_n` bits are those of i, reversed."""
    index = torch.zeros(1, dtype=torch.int64, device=device)
    for _ in range(domain.log_n):
        index = torch.cat((2 * index, 2 * index + 1))
    return index


def check_vectors(x: torch.Tensor, domain: Domain) -> None:
    """Raise `LayoutError` unless `x` is an int32 `[8, *batch, n]` for the size n of `domain`."""
    check_limbs(x, FR)
    if x.shape[-1] != domain.size:
        raise LayoutError(f"a domain of {domain.size} got vectors of {x.shape[-1]}")


def _each(f: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor) -> torch.Tensor:
    """`f` on wide elements `[W, n]` applied to each vector of a batch."""
    out = torch.empty_like(x, memory_format=torch.contiguous_format)
    vectors = x.reshape(FR.n_limbs, -1, x.shape[-1]) if x.numel() else x.new_empty(8, 0, 0)
    results = out.view(vectors.shape)
    for i in range(vectors.shape[1]):
        results[:, i] = wide_fr.to_limbs(f(wide_fr.to_wide(vectors[:, i])))
    return out
