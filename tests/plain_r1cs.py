"""A constraint system on Python integers: slow, plain, and the judge of the tensors."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from torchzk.circuits.recorder import ConstraintSystem
from torchzk.groth16.r1cs import Block, R1cs, SparseRows
from torchzk.params.fields import FR


def alone(cs: ConstraintSystem) -> R1cs:
    """A recording as a system of its own, not repeated."""
    return R1cs(ConstraintSystem().block(), cs.block(), 1)


def row_terms(block: Block, rows: SparseRows) -> list[dict[int, int]]:
    """Each row as column to coefficient."""
    bounds = rows.starts.tolist()
    cols = rows.cols.tolist()
    coefficients = [block.table[i] for i in rows.coefficients.tolist()]
    return [
        dict(zip(cols[i:j], coefficients[i:j], strict=True))
        for i, j in zip(bounds, bounds[1:], strict=False)
    ]


def plain_products(block: Block, z: Sequence[int]) -> tuple[list[int], list[int], list[int]]:
    """A z, B z, C z of a block for the values `z` of its variable vector."""
    assert len(z) == block.n_columns
    a, b, c = (
        [sum(k * z[col] for col, k in row.items()) % FR.modulus for row in row_terms(block, m)]
        for m in block.matrices
    )
    return a, b, c


def is_satisfied(block: Block, z: Sequence[int]) -> bool:
    """Whether A z * B z = C z in every row."""
    rows = zip(*plain_products(block, z), strict=True)
    return all((a * b - c) % FR.modulus == 0 for a, b, c in rows)


def digest_of(values: Sequence[int]) -> str:
    """SHA-256 over canonical values, 32 bytes little-endian each (spec/vectors.md section 2)."""
    return hashlib.sha256(b"".join(v.to_bytes(32, "little") for v in values)).hexdigest()
