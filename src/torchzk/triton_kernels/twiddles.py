"""Tables of roots of unity and constants in the form that products take them: `[n, 16]` int32.

An entry is the canonical constant w, then its quotient floor(w R / p): `ptx_shoup`. In the plain
variant it is w in Montgomery form and eight words that nothing reads.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from torchzk.device_cache import kept_by_device
from torchzk.ops.layout import pack_mont
from torchzk.params.domains import Domain
from torchzk.params.fields import FR
from torchzk.triton_kernels import limbs
from torchzk.triton_kernels.launch import launch, shape_on, wait
from torchzk.triton_kernels.ntt_code import NttCode

WORDS = 16
LOG_SHORT = 17
"""log2 of the longest of the tables for short distances: with 16 MiB of them transforms of 2^27
are 4 % quicker (runs/bench/ntt_trials.jsonl)."""


@triton.jit
def _power(high_ptr, low_ptr, i, n_high, log_low, mask, F: tl.constexpr):
    """base^i = high[i >> log_low] low[i mod 2^log_low], in Montgomery form."""
    low = i & ((tl.cast(1, tl.int64) << log_low) - 1)
    x = limbs.load(high_ptr, n_high, i >> log_low, mask, F)
    y = limbs.load(low_ptr, tl.cast(1, tl.int64) << log_low, low, mask, F)
    return limbs.mul(x, y, F)


@triton.jit(do_not_specialize=["n", "n_high", "log_low"])
def powers_kernel(
    out_ptr,  # [n, 16] int32
    high_ptr,  # [8, n_high] int32, powers of base^(2^log_low)
    low_ptr,  # [8, 2^log_low] int32, powers of base
    n,
    n_high,
    log_low,
    T: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Entries of base^i for i below n."""
    F: tl.constexpr = T.F
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    high = tl.cast(n_high, tl.int64)
    x = _power(high_ptr, low_ptr, i, high, tl.cast(log_low, tl.int64), mask, F)
    if T.variant == "ptx":
        # with x = w R mod p, (w R - x) / p is the quotient, exactly, so modulo R too
        w = limbs.mul(x, limbs.constant(T.integer_one, x[0], F), F)
        c = limbs.constant(T.minus_p_inverse, x[0], F)
        q = tl.inline_asm_elementwise(
            T.low_product, T.binary, x + c, T.element, is_pure=True, pack=1
        )
        limbs.store_row(out_ptr, 16 * i, mask, w, F)
        limbs.store_row(out_ptr, 16 * i + 8, mask, q, F)
    else:
        limbs.store_row(out_ptr, 16 * i, mask, x, F)


@triton.jit(do_not_specialize=["n_words", "n", "plane_in", "n_high", "log_low"])
def scale_by_powers_kernel(
    out_ptr,  # [8, n_vectors * n] int32
    in_ptr,  # planes, plane_in words apart
    high_ptr,  # [8, n_high] int32, powers of base^(2^log_low)
    low_ptr,  # [8, 2^log_low] int32, powers of base
    n_words,  # n_vectors * n
    n,
    plane_in,
    n_high,
    log_low,
    F: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Element i of each vector times base^i."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n_words
    high = tl.cast(n_high, tl.int64)
    factor = _power(high_ptr, low_ptr, at % n, high, tl.cast(log_low, tl.int64), mask, F)
    x = limbs.load(in_ptr, tl.cast(plane_in, tl.int64), at, mask, F)
    x = limbs.mul(factor, x, F)
    limbs.store(out_ptr, tl.cast(n_words, tl.int64), at, mask, x, F)


def power_factors(
    base: int, n: int, device: torch.device
) -> tuple[torch.Tensor, torch.Tensor, int]:
    """Two tables of about sqrt(n) powers whose products are base^i for i below n.

    Returns:
        `high` `[8, n_high]`, `low` `[8, 2^log_low]` and log_low, as `powers_kernel` takes them.
    """
    log_low = (max(n - 1, 0).bit_length() + 1) // 2
    n_high = max(-(-n >> log_low), 1)
    high = _powers(pow(base, 1 << log_low, FR.modulus), n_high)
    return (
        pack_mont(high, FR, device),
        pack_mont(_powers(base, 1 << log_low), FR, device),
        log_low,
    )


def _powers(base: int, n: int) -> list[int]:
    out = [1]
    while len(out) < n:
        out.append(out[-1] * base % FR.modulus)
    return out


@kept_by_device(4)
def roots(log_order: int, code: NttCode, device: torch.device) -> torch.Tensor:
    """Entries `[N + 1, 16]` of g^0, ..., g^N for N = 2^log_order and g a primitive 2N-th root.

    g is the coset shift of the domain of N, and the generator of the domain of 2N. The last four
    tables of a device are kept, 64 N bytes each.
    """
    table = _roots(log_order, code, device)
    wait(device)
    return table


def _roots(log_order: int, code: NttCode, device: torch.device) -> torch.Tensor:
    n = (1 << log_order) + 1
    high, low, log_low = power_factors(Domain(log_order).coset_shift, n, device)
    out = torch.empty(n, WORDS, dtype=torch.int32, device=device)
    shape = shape_on(device, "elementwise", FR.n_limbs)
    launch(powers_kernel, n, shape, device, out, high, low, n, high.shape[1], log_low, T=code)
    return out


@kept_by_device(4)
def short_roots(log_order: int, code: NttCode, device: torch.device) -> torch.Tensor:
    """`roots` of every order up to `log_order`, side by side: `[n, 16]`.

    Those of 2^k start at entry 2^k + 8 k. The quarters of eight entries follow each other: of all
    eight the first, then the second. So neighbours in a warp, which load a quarter at a time, read
    what lies side by side. One is for all long transforms of a device, 16 MiB.
    """
    longest = _roots(log_order, code, device)
    out = torch.zeros(short_entries(log_order), WORDS, dtype=torch.int32, device=device)
    for k in range(log_order + 1):
        first = (1 << k) + 8 * k
        out[first : first + (1 << k) + 1] = longest[:: 1 << (log_order - k)]
    out = out.view(-1, 8, 4, 4).transpose(1, 2).contiguous().view(-1, WORDS)
    wait(device)
    return out


def short_order(log_order: int) -> int:
    """That of the short tables beside `roots` of `log_order`."""
    return min(log_order, LOG_SHORT)


def short_entries(log_order: int) -> int:
    """The length of `short_roots`."""
    k = log_order + 1
    return (1 << max(k, 3)) + 8 * k


@kept_by_device(64)
def constants(values: tuple[int, ...], code: NttCode, device: torch.device) -> torch.Tensor:
    """Entries `[len(values), 16]` of canonical integers."""
    table = torch.zeros(len(values), WORDS, dtype=torch.int32)
    if code.variant == "plain":
        table[:, :8] = pack_mont(values, FR, "cpu").t()
    else:
        quotients = [(v << 256) // FR.modulus for v in values]
        words = [
            v.to_bytes(32, "little") + q.to_bytes(32, "little")
            for v, q in zip(values, quotients, strict=True)
        ]
        table = torch.frombuffer(bytearray(b"".join(words)), dtype=torch.int32).view(-1, WORDS)
    return table.to(device)
