"""What each operation's name stands for."""

from __future__ import annotations

from torchzk.bench import arithmetic, hashes, linear, sums, transforms
from torchzk.bench.prepared import Prepare
from torchzk.params.curves import G1, G2

OPERATIONS: dict[str, Prepare] = {
    "field.mul.fr": arithmetic.chain("mul", "fr"),
    "field.mul.fp": arithmetic.chain("mul", "fp"),
    "field.mul.fp2": arithmetic.chain("mul", "fp2"),
    "field.sqr.fr": arithmetic.chain("sqr", "fr"),
    "field.sqr.fp": arithmetic.chain("sqr", "fp"),
    "field.add.fr": arithmetic.chain("add", "fr"),
    "field.add.fp": arithmetic.chain("add", "fp"),
    "stream.mul.fr": arithmetic.stream("fr"),
    "stream.mul.fp": arithmetic.stream("fp"),
    "inverse.fr": arithmetic.inverse,
    "ntt": transforms.transform("ntt"),
    "intt": transforms.transform("intt"),
    "quotient": transforms.quotient,
    "msm.g1": sums.msm(G1),
    "msm.g2": sums.msm(G2),
    "batch_add.g1": sums.batch_add(G1),
    "batch_add.g2": sums.batch_add(G2),
    "fixed_base.g1": sums.fixed_base(G1),
    "fixed_base.g2": sums.fixed_base(G2),
    "spmv": linear.product(transposed=False),
    "spmv_copies": linear.copies,
    "spmv_transposed": linear.product(transposed=True),
    "sha256.64B": hashes.sha256(64),
    "sha256.1216B": hashes.sha256(1216),
    "poseidon.2": hashes.poseidon(2),
    "poseidon.8": hashes.poseidon(8),
    "poseidon.11": hashes.poseidon(11),
}

GROUPS = {
    "field": "field",
    "stream": "field",
    "inverse": "field",
    "ntt": "transforms",
    "intt": "transforms",
    "quotient": "transforms",
    "msm": "msm",
    "batch_add": "points",
    "fixed_base": "points",
    "spmv": "sparse",
    "spmv_copies": "sparse",
    "spmv_transposed": "sparse",
    "sha256": "hashes",
    "poseidon": "hashes",
}
"""The file of rows, by the first part of an operation's name."""


def group_of(operation: str) -> str:
    """The name, without its ending, of the file that rows of an operation go to."""
    return GROUPS[operation.partition(".")[0]]
