"""How many points each query of a circuit's key has. Source: spec/groth16.md section 4."""

from __future__ import annotations

from torchzk.groth16.density import density
from torchzk.groth16.keys import QueryLengths
from torchzk.groth16.r1cs import R1cs


def expected_lengths(r1cs: R1cs) -> QueryLengths:
    """The lengths that a key of this constraint system must have."""
    dense = density(r1cs)
    b = dense.b_inputs.count + dense.b_aux.count
    return QueryLengths(
        h=r1cs.domain.size - 1,
        l=r1cs.n_aux,
        a=r1cs.n_inputs + dense.a_aux.count,
        b_g1=b,
        b_g2=b,
    )
