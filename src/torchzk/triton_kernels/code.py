"""What a kernel is told about its field: one constant object, chosen when the kernel compiles."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Literal

import triton.language as tl

from torchzk.params.fields import LIMB_BITS, PrimeField, split
from torchzk.triton_kernels import ptx, ptx_fp2, ptx_montgomery

Variant = Literal["ptx", "plain"]


@dataclass(frozen=True, repr=False, eq=False)
class FieldCode:
    """A field, or its quadratic extension, and the way its arithmetic is computed.

    Kernels take it as a `tl.constexpr` named `F` and hand it on to the functions of `limbs`. What
    they hand on besides is wrapped as a constant here, or by them: `P: tl.constexpr = F.prime`.
    Triton keys compiled kernels by `repr` on disk and by equality in memory, so both go by all
    there is to know, the text too.
    """

    field: PrimeField
    degree: int
    """1 for the prime field, 2 for Fp2."""
    variant: Variant

    def __repr__(self) -> str:
        return self._name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FieldCode) and self._name == other._name

    def __hash__(self) -> int:
        return hash(self._name)

    @cached_property
    def _name(self) -> str:
        texts = "".join((self.add, self.sub, self.neg, self.mul, self.sqr, self.unary, self.binary))
        digest = hashlib.sha256(f"{self.field.modulus:x} {texts}".encode()).hexdigest()[:12]
        name = self.field.name.replace(".", "_")
        return f"{name}_{self.degree}_{self.variant}_{digest}"

    @cached_property
    def L(self) -> int:  # noqa: N802
        """Limbs of a coordinate."""
        return self.field.n_limbs

    @cached_property
    def W(self) -> int:  # noqa: N802
        """Words of an element: L for each coordinate, c0 before c1."""
        return self.degree * self.L

    @cached_property
    def p(self) -> tl.constexpr:
        """The words of the modulus."""
        return tl.constexpr(split(self.field.modulus, self.L))

    @cached_property
    def n0_inv(self) -> int:
        """-p^-1 mod 2^32."""
        return -pow(self.field.modulus, -1, 1 << LIMB_BITS) % (1 << LIMB_BITS)

    @cached_property
    def one(self) -> tl.constexpr:
        """The words of 1 in Montgomery form."""
        return tl.constexpr(split(self.field.r, self.W))

    @cached_property
    def inverse_exponent(self) -> tl.constexpr:
        """The words of p - 2."""
        return tl.constexpr(split(self.field.modulus - 2, self.L))

    @cached_property
    def prime(self) -> FieldCode:
        """The code of a coordinate."""
        return self if self.degree == 1 else field_code(self.field, 1, self.variant)

    @cached_property
    def types(self) -> tuple[tl.dtype, ...]:
        """The types of an asm block's results."""
        return (tl.uint32,) * self.W

    @cached_property
    def unary(self) -> str:
        """Constraints of an asm block of one argument."""
        return ptx.constraints(self.W, 1)

    @cached_property
    def binary(self) -> str:
        """Constraints of an asm block of two arguments."""
        return ptx.constraints(self.W, 2)

    @cached_property
    def add(self) -> str:
        return self._write(ptx.add_mod, ptx_fp2.add_mod, 2)

    @cached_property
    def sub(self) -> str:
        return self._write(ptx.sub_mod, ptx_fp2.sub_mod, 2)

    @cached_property
    def neg(self) -> str:
        return self._write(ptx.neg_mod, ptx_fp2.neg_mod, 1)

    @cached_property
    def mul(self) -> str:
        return self._write(ptx_montgomery.mul, ptx_fp2.mul, 2)

    @cached_property
    def sqr(self) -> str:
        return self._write(ptx_montgomery.sqr, ptx_fp2.sqr, 1)

    def _write(self, prime: Callable[..., None], fp2: Callable[..., None], n: int) -> str:
        """The text of an asm block; empty where no asm is used."""
        if self.variant == "plain":
            return ""
        body = prime if self.degree == 1 else fp2
        return ptx.write(lambda block, *words: body(block, *words, self.field), self.W, n)


@cache
def field_code(field: PrimeField, degree: int, variant: Variant) -> FieldCode:
    """The one object for these three, so that its text is written once."""
    return FieldCode(field, degree, variant)
