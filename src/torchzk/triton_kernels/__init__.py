"""The reference operations of `torchzk.ops` as Triton kernels: the backend `triton`.

Same names, same bits, fast. Importing this package needs Triton; a device is asked for when an
operation is called.
"""

from torchzk.triton_kernels.batch_add import batch_add
from torchzk.triton_kernels.curve import add_affine, neg_affine, on_curve
from torchzk.triton_kernels.field import (
    add,
    batch_inverse,
    from_mont,
    mont_mul,
    mont_sqr,
    neg,
    scale,
    sub,
    to_mont,
)
from torchzk.triton_kernels.fixed_base import fixed_base
from torchzk.triton_kernels.fp2 import (
    fp2_add,
    fp2_batch_inverse,
    fp2_mul,
    fp2_neg,
    fp2_sqr,
    fp2_sub,
)
from torchzk.triton_kernels.msm import bit_sums, msm
from torchzk.triton_kernels.ntt import coset_scale, intt, intt_dit, ntt, ntt_dif
from torchzk.triton_kernels.poseidon import poseidon, poseidon_wires
from torchzk.triton_kernels.quotient import quotient
from torchzk.triton_kernels.quotient_in_turn import quotient_in_turn
from torchzk.triton_kernels.sha256 import sha256
from torchzk.triton_kernels.sha256_steps import sha256_steps
from torchzk.triton_kernels.spmv import spmv, spmv_copies, spmv_transposed
from torchzk.triton_kernels.values import classes, first_unsatisfied, from_mont_at

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
    "mont_mul",
    "mont_sqr",
    "msm",
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
