"""Which lane a process is: interpreted, compiled on a GPU, or compiled only."""

from __future__ import annotations

import os

import torch

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
RUNS_KERNELS = INTERPRETED or torch.cuda.is_available()
