"""Every operation in plain PyTorch, on any device: the reference, and the backend `torch`."""

from torchzk.ops.batch_add import batch_add
from torchzk.ops.curve import add_affine, neg_affine, on_curve
from torchzk.ops.field import (
    add,
    batch_inverse,
    from_mont,
    is_zero,
    mont_mul,
    mont_sqr,
    neg,
    scale,
    sub,
    to_mont,
)
from torchzk.ops.fixed_base import fixed_base
from torchzk.ops.fp2 import fp2_add, fp2_batch_inverse, fp2_mul, fp2_neg, fp2_sqr, fp2_sub
from torchzk.ops.msm import bit_sums, msm
from torchzk.ops.ntt import coset_scale, intt, intt_dit, naive_ntt, ntt, ntt_dif
from torchzk.ops.poseidon import poseidon, poseidon_wires
from torchzk.ops.quotient import quotient, quotient_in_turn
from torchzk.ops.sha256 import sha256
from torchzk.ops.sha256_steps import sha256_steps
from torchzk.ops.spmv import spmv, spmv_copies, spmv_transposed
from torchzk.ops.values import classes, first_unsatisfied, from_mont_at

__all__ = [
    "add",
    "add_affine",
    "batch_add",
    "batch_inverse",
    "bit_sums",
    "classes",
    "coset_scale",
    "first_unsatisfied",
    "fixed_base",
    "fp2_add",
    "fp2_batch_inverse",
    "fp2_mul",
    "fp2_neg",
    "fp2_sqr",
    "fp2_sub",
    "from_mont",
    "from_mont_at",
    "intt",
    "intt_dit",
    "is_zero",
    "mont_mul",
    "mont_sqr",
    "msm",
    "naive_ntt",
    "neg",
    "neg_affine",
    "ntt",
    "ntt_dif",
    "on_curve",
    "poseidon",
    "poseidon_wires",
    "quotient",
    "quotient_in_turn",
    "scale",
    "sha256",
    "sha256_steps",
    "spmv",
    "spmv_copies",
    "spmv_transposed",
    "sub",
    "to_mont",
]
