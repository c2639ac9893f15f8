"""Inversion in Fp without a long exponentiation: the division steps of Bernstein and Yang.

A step looks at the lowest bits of f and g only, so 30 steps run on one word; what they did is a
2 by 2 matrix, which is then applied to all of f and g, and modulo p to d and e. It begins with
f = p, g = a, d = 0, e = c and keeps d a = f c, e a = g c mod p; at the end g = 0, f = +-1, and
so d = +-c / a. With c = R^2 that is the inverse in Montgomery form of a in Montgomery form.

Source: D. J. Bernstein and B.-Y. Yang, Fast constant-time gcd computation and modular inversion
(2019), with the half-delta variant and its bound, (45907 b + 26313) / 19929 steps for b bits, by
P. Wuille, Bounds on divsteps iterations in safegcd (2021).
"""

from __future__ import annotations

import triton
import triton.language as tl

from torchzk.params.fields import FP, split

BITS = 30
_MASK = tl.constexpr((1 << BITS) - 1)
_BATCHES = tl.constexpr(-(-((45907 * FP.modulus.bit_length() + 26313) // 19929 + 1) // BITS))
_P = tl.constexpr(split(FP.modulus, 13, BITS))
_R2 = tl.constexpr(split(FP.r * FP.r % FP.modulus, 13, BITS))
_P_INVERSE = tl.constexpr(pow(FP.modulus, -1, 1 << BITS))


@triton.jit
def _to_30(a):
    """12 words to 13 words of 30 bits, int32."""
    out = ()
    for j in tl.static_range(12):
        word = a[30 * j // 32] >> (30 * j % 32)
        if 30 * j % 32 > 2:
            word = word | (a[30 * j // 32 + 1] << (32 - 30 * j % 32))
        out = out + ((word & _MASK).to(tl.int32, bitcast=True),)
    return out + ((a[11] >> 8).to(tl.int32, bitcast=True),)


@triton.jit
def _to_32(a):
    """Inverse of `_to_30`, for a value in [0, p)."""
    out = ()
    for j in tl.static_range(12):
        word = a[32 * j // 30].to(tl.uint32, bitcast=True) >> (32 * j % 30)
        word = word | (a[32 * j // 30 + 1].to(tl.uint32, bitcast=True) << (30 - 32 * j % 30))
        out = out + (word,)
    return out


@triton.jit
def _steps(eta, f, g):
    """30 division steps on the lowest words; the matrix is worth 2^30 times the steps."""
    u = f * 0 + 1
    v = f * 0
    q = f * 0
    r = f * 0 + 1
    for _ in tl.static_range(30):
        swap = eta >> 31
        odd = -(g & 1)
        x = (f ^ swap) - swap
        y = (u ^ swap) - swap
        z = (v ^ swap) - swap
        g = g + (x & odd)
        q = q + (y & odd)
        r = r + (z & odd)
        swap = swap & odd
        eta = (eta ^ swap) - 1
        f = f + (g & swap)
        u = u + (q & swap)
        v = v + (r & swap)
        g = g >> 1
        u = u << 1
        v = v << 1
    return eta, u, v, q, r


@triton.jit
def _apply(u, v, q, r, f, g):
    """(u f + v g, q f + r g) / 2^30, exact."""
    u, v, q, r = u.to(tl.int64), v.to(tl.int64), q.to(tl.int64), r.to(tl.int64)
    cf = (u * f[0] + v * g[0]) >> 30
    cg = (q * f[0] + r * g[0]) >> 30
    out_f = ()
    out_g = ()
    for j in tl.static_range(1, 13):
        cf += u * f[j] + v * g[j]
        cg += q * f[j] + r * g[j]
        out_f = out_f + ((cf & _MASK).to(tl.int32),)
        out_g = out_g + ((cg & _MASK).to(tl.int32),)
        cf = cf >> 30
        cg = cg >> 30
    return out_f + (cf.to(tl.int32),), out_g + (cg.to(tl.int32),)


@triton.jit
def _combine(u, v, d, e):
    """(u d + v e) / 2^30 mod p, in (-2 p, p) as d and e are."""
    low = (u & (d[12] >> 31)) + (v & (e[12] >> 31))
    u, v = u.to(tl.int64), v.to(tl.int64)
    carry = u * d[0] + v * e[0]
    # the multiple of p that makes the sum divisible
    low = low - ((_P_INVERSE * carry.to(tl.int32) + low) & _MASK)
    m = low.to(tl.int64)
    carry = (carry + m * _P[0]) >> 30
    out = ()
    for j in tl.static_range(1, 13):
        carry += u * d[j] + v * e[j] + m * _P[j]
        out = out + ((carry & _MASK).to(tl.int32),)
        carry = carry >> 30
    return out + (carry.to(tl.int32),)


@triton.jit
def _propagate(a):
    """Words of 30 bits again, the sign in the last."""
    out = ()
    carry = a[0] * 0
    for j in tl.static_range(12):
        carry = carry + a[j]
        out = out + (carry & _MASK,)
        carry = carry >> 30
    return out + (carry + a[12],)


@triton.jit
def _add_if(condition, a):
    """a + p where the condition holds."""
    out = ()
    for j in tl.static_range(13):
        out = out + (a[j] + tl.where(condition, _P[j], 0),)
    return _propagate(out)


@triton.jit
def inverse(a):
    """The inverse of an element of Fp in Montgomery form, 12 words; zero gives zero."""
    g = _to_30(a)
    f = ()
    d = ()
    e = ()
    z = g[0] * 0
    for j in tl.static_range(13):
        f = f + (z + _P[j],)
        d = d + (z,)
        e = e + (z + _R2[j],)
    eta = z - 1
    for _ in range(_BATCHES):
        eta, u, v, q, r = _steps(eta, f[0], g[0])
        f, g = _apply(u, v, q, r, f, g)
        d, e = _combine(u, v, d, e), _combine(q, r, d, e)
    # from (-2 p, p) and the sign of f to [0, p)
    d = _add_if(d[12] < 0, d)
    flip = f[12] >> 31
    signed = ()
    for j in tl.static_range(13):
        signed = signed + ((d[j] ^ flip) - flip,)
    d = _propagate(signed)
    return _to_32(_add_if(d[12] < 0, d))
