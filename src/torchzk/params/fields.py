"""The prime fields of BLS12-381. A field is its modulus; every other constant is derived.

Source: spec/groth16.md; the curve's definition is draft-irtf-cfrg-pairing-friendly-curves, 4.2.1.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

LIMB_BITS = 32


def split(value: int, n: int, bits: int = LIMB_BITS) -> tuple[int, ...]:
    """`value` as `n` little-endian words of `bits` bits."""
    return tuple((value >> bits * i) & ((1 << bits) - 1) for i in range(n))


@dataclass(frozen=True)
class PrimeField:
    """A prime field in Montgomery form with R = 2^(32 * n_limbs)."""

    name: str
    modulus: int
    generator: int
    """Generator of the multiplicative group."""

    def __post_init__(self) -> None:
        if pow(3, self.modulus - 1, self.modulus) != 1:
            raise ValueError(f"{self.name}: modulus is not prime")
        if split(self.modulus, self.n_limbs)[-1] >= 0x7FFFFFFF:
            raise ValueError(f"{self.name}: the top limb needs a spare bit")

    @cached_property
    def n_limbs(self) -> int:
        return -(-self.modulus.bit_length() // LIMB_BITS)

    @property
    def n_bytes(self) -> int:
        return self.n_limbs * LIMB_BITS // 8

    @cached_property
    def r(self) -> int:
        """Montgomery radix R mod p, which is also 1 in Montgomery form."""
        return (1 << LIMB_BITS * self.n_limbs) % self.modulus

    @cached_property
    def r_inv(self) -> int:
        """R^-1 mod p."""
        return pow(self.r, -1, self.modulus)

    @cached_property
    def two_adicity(self) -> int:
        """Largest s with 2^s | p - 1, so the largest NTT is 2^s."""
        return ((self.modulus - 1) & -(self.modulus - 1)).bit_length() - 1

    @cached_property
    def root_of_unity(self) -> int:
        """An element of order 2^two_adicity, in canonical form."""
        return pow(self.generator, (self.modulus - 1) >> self.two_adicity, self.modulus)

    def to_mont(self, value: int) -> int:
        """Canonical to Montgomery form, on integers."""
        return value * self.r % self.modulus

    def from_mont(self, value: int) -> int:
        """Montgomery to canonical form, on integers."""
        return value * self.r_inv % self.modulus


FR = PrimeField(
    name="bls12_381.fr",
    modulus=0x73EDA753299D7D483339D80809A1D80553BDA402FFFE5BFEFFFFFFFF00000001,
    generator=7,
)
FP = PrimeField(
    name="bls12_381.fp",
    modulus=int(
        "1a0111ea397fe69a4b1ba7b6434bacd764774b84f38512bf6730d2a0f6b0f624"
        "1eabfffeb153ffffb9feffffffffaaab",
        16,
    ),
    generator=2,
)
FIELDS = {f.name: f for f in (FR, FP)}
