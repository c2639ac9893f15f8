"""Evaluation domains: the subgroup of order 2^log_n of a field's multiplicative group."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from torchzk.params.fields import FR, PrimeField


@dataclass(frozen=True)
class Domain:
    """The 2^log_n-th roots of unity, in canonical form.

    Source: spec/groth16.md section 2.
    """

    log_n: int
    field: PrimeField = FR

    def __post_init__(self) -> None:
        if not 0 <= self.log_n < self.field.two_adicity:
            raise ValueError(
                f"domain 2^{self.log_n} is outside 2^0..2^{self.field.two_adicity - 1}"
            )

    @property
    def size(self) -> int:
        return 1 << self.log_n

    @cached_property
    def omega(self) -> int:
        """A generator of the domain: constraint j lives at omega^j."""
        up = self.field.two_adicity - self.log_n
        return pow(self.field.root_of_unity, 1 << up, self.field.modulus)

    @cached_property
    def coset_shift(self) -> int:
        """A primitive 2n-th root of unity, so that x^n - 1 is the constant -2 on the coset.

        bellperson shifts by the generator 7. The quotient is the same polynomial on any coset
        that misses the domain, so the proof's bytes are too.
        """
        up = self.field.two_adicity - self.log_n - 1
        return pow(self.field.root_of_unity, 1 << up, self.field.modulus)


def domain_for(n_rows: int) -> Domain:
    """The smallest domain with room for `n_rows` constraints."""
    return Domain(max(n_rows - 1, 0).bit_length())
