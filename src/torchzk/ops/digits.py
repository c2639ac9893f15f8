"""Scalars in canonical form to window digits."""

from __future__ import annotations

import torch

from torchzk.params.fields import LIMB_BITS


def unsigned_digits(scalars: torch.Tensor, bits: int, n_windows: int) -> torch.Tensor:
    """Digits d_i in [0, 2^bits) with sum d_i 2^(bits i) = scalar mod 2^(bits n_windows).

    Args:
        scalars: int32 limbs `[L, n]`, canonical form.
        bits: Window bits c, 1..31.
        n_windows: w; windows beyond the limbs are zero.

    Returns:
        int64 `[w, n]`.
    """
    n_limbs, n = scalars.shape
    limbs = scalars.to(torch.int64) & 0xFFFFFFFF
    out = torch.zeros(n_windows, n, dtype=torch.int64, device=scalars.device)
    for i in range(n_windows):
        limb, shift = divmod(i * bits, LIMB_BITS)
        if limb < n_limbs:
            out[i] = limbs[limb] >> shift
        if shift + bits > LIMB_BITS and limb + 1 < n_limbs:
            out[i] |= limbs[limb + 1] << LIMB_BITS - shift
    return out.bitwise_and_((1 << bits) - 1)


def signed_windows(n_limbs: int, bits: int) -> int:
    """Windows of signed digits that hold any `n_limbs` limbs: a bit more, for the carry."""
    return -(-(LIMB_BITS * n_limbs + 1) // bits)


def signed_digits(scalars: torch.Tensor, bits: int) -> torch.Tensor:
    """Digits d_i in [-2^(bits - 1), 2^(bits - 1)] with sum d_i 2^(bits i) = scalar.

    Half the buckets of unsigned digits, as -P costs nothing.

    Args:
        scalars: int32 limbs `[L, n]`, canonical form.
        bits: Window bits c, 2..31.

    Returns:
        int64 `[signed_windows(L, bits), n]`.
    """
    digits = unsigned_digits(scalars, bits, signed_windows(scalars.shape[0], bits))
    half = 1 << bits - 1
    for low, high in zip(digits[:-1], digits[1:], strict=True):
        carry = (low > half).to(torch.int64)
        low.sub_(carry, alpha=1 << bits)
        high.add_(carry)
    return digits
