"""Which lane a process is: interpreted, compiled on a GPU, or compiled only."""

from __future__ import annotations

import os

import torch

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
RUNS_KERNELS = INTERPRETED or torch.cuda.is_available()

KERNEL_TESTS = (
    "test_msm_kernels.py",
    "test_ntt_kernels.py",
    "test_quotient_kernels.py",
    "test_poseidon_kernels.py",
    "test_in_turn_kernels.py",
    "test_reduce_kernels.py",
    "test_inverse_kernels.py",
    "test_curve_kernels.py",
    "test_spmv_kernels.py",
    "test_rate.py",
    "test_prover_kernels.py",
    "test_sha256_kernels.py",
    "test_field_kernels.py",
    "test_variants.py",
    "test_operations.py",
    "test_graphs.py",
    "test_values_kernels.py",
    "test_fp2_kernels.py",
)
"""Modules of tests that run kernels, in the interpreter the slowest first."""
