"""Transforms of wide elements of Fr, `[W, n]`: what `ops/ntt.py` and `ops/quotient.py` share.

Every stage reads one end of the vector and writes the other, so that the index rotates by one bit
and the pieces are long whatever the stage (Pease, 1968). One side of a butterfly is multiplied
and is normal (`ops/wide.py`) afterwards; so both results hold one normal element more than the
other side did, and a reduction is due every few stages only.
"""

from __future__ import annotations

import torch

from torchzk.ops import wide, wide_fr
from torchzk.ops.chunks import chunk_size
from torchzk.params.fields import FR

# normal elements that a sum may hold when it is multiplied
_MAX_TERMS = 7


def powers(
    base: int, log_n: int, device: torch.device, *, first: int = 1, bit_reversed: bool = False
) -> torch.Tensor:
    """`first` * `base`^i for i below 2^log_n, normal elements `[W, n]` in Montgomery form."""
    table = wide_fr.mul(wide_fr.constant(first, device), wide_fr.constant(1, device))
    for stage in range(log_n):
        bit = log_n - 1 - stage if bit_reversed else stage
        up = wide_fr.constant(pow(base, 1 << bit, FR.modulus), device)
        table = torch.cat((table, wide_fr.mul(table, up)), dim=1)
    return table


def dif(x: torch.Tensor, twiddles: torch.Tensor) -> torch.Tensor:
    """X_k = sum_j x_j w^(j k), natural order in, bit-reversed order out.

    Args:
        x: Normal elements `[W, n]`, which are used up.
        twiddles: w^j for j below n / 2, bit-reversed, for a primitive n-th root w.

    Returns:
        Sums of at most 7 normal elements, `[W, n]`.

    Source:
        Stage s reduces modulo X^h - t and X^h + t where t is the s-bit reversed power of w.
    """
    half = x.shape[1] // 2
    size = min(half, chunk_size(x.device))
    out = torch.empty_like(x)
    terms = 1
    for stage in range(x.shape[1].bit_length() - 1):
        period = 1 << stage
        table = twiddles[:, :period].repeat(1, size // period) if period < size else twiddles
        full = terms == _MAX_TERMS
        for i in range(0, half, size):
            u, v = x[:, i : i + size], x[:, half + i : half + i + size]
            at = i % period if period > size else 0
            # the first twiddle is 1
            v = wide.mul(v, table[:, at : at + size], FR) if stage else v
            u = wide.reduce(u, FR) if full else u
            torch.add(u, v, out=out[:, 2 * i : 2 * (i + size) : 2])
            torch.sub(u, v, out=out[:, 2 * i + 1 : 2 * (i + size) : 2])
        terms = 2 if full else terms + 1
        x, out = out, x
    return x


def dit(x: torch.Tensor, twiddles: torch.Tensor) -> torch.Tensor:
    """X_k = sum_j x_j w^(j k), bit-reversed order in, natural order out.

    Args:
        x: Normal elements `[W, n]`, which are used up.
        twiddles: w^j for j below n / 2, in natural order, for a primitive n-th root w.

    Returns:
        Sums of at most 7 normal elements, `[W, n]`.

    Source:
        Cooley and Tukey, 1965: stage s joins the halves of transforms of 2^(s + 1).
    """
    half = x.shape[1] // 2
    size = min(half, chunk_size(x.device))
    out = torch.empty_like(x)
    terms = 1
    for stage in range(x.shape[1].bit_length() - 1):
        # as many neighbours have the same twiddle
        run = half >> stage
        full = terms == _MAX_TERMS
        for i in range(0, half, size):
            u, v = x[:, 2 * i : 2 * (i + size) : 2], x[:, 2 * i + 1 : 2 * (i + size) : 2]
            if stage:
                some = twiddles[:, i // run * run : i + size : run]
                v = wide.mul(v, some.repeat_interleave(min(run, size), dim=1), FR)
            u = wide.reduce(u, FR) if full else u
            torch.add(u, v, out=out[:, i : i + size])
            torch.sub(u, v, out=out[:, half + i : half + i + size])
        terms = 2 if full else terms + 1
        x, out = out, x
    return x
